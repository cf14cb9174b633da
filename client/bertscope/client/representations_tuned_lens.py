# Generated from bertscope/questions/representations/tuned_lens_calls.py. Do not edit: change that file, and run `make client`.
# Generated from tuned_lens_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for tuned lenses: `train_lens`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import last
from bertscope.questions.representations.tuned_lens import TrainLensProgress, TunedLens, TunedLensAssembler, with_lens_texts
from bertscope.v1 import representation_tuned_lens_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.choices import LensNormalisation
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.validation import TextOrPair


class TunedLensCalls(Connection):
    """The methods of `Client` that train tuned lenses."""

    def train_lens(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        *,
        dev: TextOrPair | Iterable[TextOrPair] = (),
        model: str | Model | None = None,
        layers: Numbers | None = None,
        mask_rate: float | None = None,
        normalisation: LensNormalisation | None = None,
        learning_rate: float | None = None,
        max_epochs: SupportsIndex | None = None,
        patience: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        truncate: bool = False,
        memory_bytes: SupportsIndex | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: Callable[[TrainLensProgress], object] | None = None,
        timeout: float | None = None,
    ) -> TunedLens:
        """Trains a tuned lens on the server (Belrose et al. 2023): an affine map for each layer. With it the masked-LM head
        predicts from the layer's states what it predicts from the last. The result goes to `read_layers` as `lens`.

        Texts need no labels: training minimises KL(last || this) over all pieces but special tokens, of which `mask_rate`
        (0.15) are masked by chance. `dev` decides when training ends, and fits are measured on it; it is a tenth of `texts`
        unless given. `layers` are all but the last unless given. `learning_rate` (0.001), `max_epochs` (20) and `patience`
        (4) are training's; `seed` draws masks, the order of pieces and the dev texts. `truncate` cuts long texts.
        `memory_bytes` bounds the server's memory for states, which go to its disk beyond that.

        All texts go in one call: at most 100,000 texts with 1,000,000 pieces, and no more bytes than the server takes
        (16 MiB). An exception in `on_progress`, or Ctrl-C, ends it.
        """
        request = with_lens_texts(
            request_of(
                representation_tuned_lens_pb2.TrainLensRequest,
                model=model,
                layers=layers,
                mask_rate=mask_rate,
                normalisation=normalisation,
                learning_rate=learning_rate,
                max_epochs=max_epochs,
                patience=patience,
                seed=seed,
                truncate=truncate,
                memory_bytes=memory_bytes,
                interventions=interventions,
                reference_texts=reference_texts,
            ),
            texts,
            dev=dev,
        )
        messages = self._stream(request, representation_tuned_lens_pb2.TrainLensResponse, timeout)
        return last(messages, TunedLensAssembler().add, on_progress, TunedLens, "training without a lens")
