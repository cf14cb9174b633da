"""Declares the calls for tuned lenses: `train_lens`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.representations.tuned_lens import TrainLensProgress, TunedLens, TunedLensAssembler, with_lens_texts
from bertscope.rpc.uniform import trained
from bertscope.values.choices import LensNormalisation
from bertscope.values.validation import TextOrPair


class TunedLensCalls(Protocol):
    """The methods of `AsyncClient` that train tuned lenses."""

    @trained(
        with_lens_texts,
        TunedLensAssembler,
        TrainLensProgress,
        lacking="training without a lens",
        without="weights",
        order="dev model layers mask_rate normalisation learning_rate max_epochs patience seed truncate memory_bytes",
    )
    def train_lens(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        *,
        dev: TextOrPair | Iterable[TextOrPair] = (),
        normalisation: LensNormalisation | None = None,
        seed: SupportsIndex = 0,
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
