# Generated from bertscope/questions/representations/codes_calls.py. Do not edit: change that file, and run `make client`.
# Generated from codes_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for sparse codes: `train_codes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import last
from bertscope.questions.representations.codes import SparseCodes, TrainCodesProgress
from bertscope.questions.representations.codes_replies import CodesAssembler
from bertscope.questions.representations.tuned_lens import with_lens_texts
from bertscope.v1 import representation_codes_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.validation import TextOrPair


class CodesCalls(Connection):
    """The methods of `Client` that train sparse codes."""

    def train_codes(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        *,
        layer: SupportsIndex,
        dev: TextOrPair | Iterable[TextOrPair] = (),
        model: str | Model | None = None,
        codes: SupportsIndex | None = None,
        active: SupportsIndex | None = None,
        mask_rate: float | None = None,
        learning_rate: float | None = None,
        epochs: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        truncate: bool = False,
        memory_bytes: SupportsIndex | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: Callable[[TrainCodesProgress], object] | None = None,
        timeout: float | None = None,
    ) -> SparseCodes:
        """Trains sparse codes of a layer's states on the server: a BatchTopK sparse autoencoder (Bussmann, Leask and Nanda
        2024; Gao et al. 2024). `SparseCodes.change` and `SparseCodes.reconstruct` make changes of them for all other calls.

        Texts need no labels: training minimises the squared error over all pieces but special tokens, of which `mask_rate`
        (0.15) are masked by chance. `dev`, a tenth of `texts` unless given, is what scores are of: the variance explained, and
        the masked-LM loss with the codes' sum in place of the state. `layer` is 0, the embeddings, to the model's layers;
        `codes` are four times the length of a state, and `active` (32) of them are active at a piece on average.
        `learning_rate` (0.003) and `epochs` (10) are training's; `seed` draws the first directions, masks, the order of pieces
        and the dev texts. `truncate` cuts long texts. `memory_bytes` bounds the server's memory for states, which go to its
        disk beyond that.

        All texts go in one call: at most 100,000 texts with 1,000,000 pieces, and no more bytes than the server takes
        (16 MiB). An exception in `on_progress`, or Ctrl-C, ends it.
        """
        request = with_lens_texts(
            request_of(
                representation_codes_pb2.TrainCodesRequest,
                layer=layer,
                model=model,
                codes=codes,
                active=active,
                mask_rate=mask_rate,
                learning_rate=learning_rate,
                epochs=epochs,
                seed=seed,
                truncate=truncate,
                memory_bytes=memory_bytes,
                interventions=interventions,
                reference_texts=reference_texts,
            ),
            texts,
            dev=dev,
        )
        messages = self._stream(request, representation_codes_pb2.TrainCodesResponse, timeout)
        return last(messages, CodesAssembler().add, on_progress, SparseCodes, "training without codes")
