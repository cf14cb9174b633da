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

        Training minimises the squared error over all pieces but special tokens. Scores are of `dev`: the variance explained,
        and the masked-LM loss with the codes' sum in place of the state.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            texts: Texts or pairs to train on, which need no labels: at most 100,000 with 1,000,000 pieces.
            layer: The layer whose states are coded: 0, the embeddings, to layers of the model.
            dev: Texts that all scores are of; empty splits a tenth of the training texts off, chosen by `seed`.
            model: The model's name or a `Model`; None means the server's default model.
            codes: Codes, 1 to 65,536; None means four times the length of a state.
            active: Codes that are active at a piece, on average, in training: 1 to 4,096, at most `codes`; None means 32, or
                `codes` if there are fewer.
            mask_rate: The share of pieces that are replaced by masks before the model reads them, each chosen by chance: 0 to
                1; None means 0.15, as BERT was trained (Devlin et al. 2019, section 3.1). The losses are those of the masked
                pieces of dev.
            learning_rate: Adam's learning rate, more than 0 and at most 1; None means 0.003. It falls to 0 over the last fifth
                of the steps.
            epochs: Passes over the training texts, 1 to 1,000; None means 10.
            seed: Draws the first directions, the masks, the order of pieces and the dev texts.
            truncate: True: cut texts that are longer than the model reads. False: such a text is an error.
            memory_bytes: Most memory that the call takes for states and codes, bytes, 1 to the server's limit; None means that
                limit. States beyond it are kept in a file.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            timeout: Seconds for the call; None means no limit.
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
