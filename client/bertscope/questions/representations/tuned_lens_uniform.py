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

        Training minimises KL(last || this) over all pieces but special tokens.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            texts: Texts or pairs to train on, which need no labels: at most 100,000 with 1,000,000 pieces.
        """
