"""Declares the calls for sparse codes: `train_codes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.representations.codes import SparseCodes, TrainCodesProgress
from bertscope.questions.representations.codes_replies import CodesAssembler
from bertscope.questions.representations.tuned_lens import with_lens_texts
from bertscope.rpc.uniform import trained
from bertscope.values.validation import TextOrPair


class CodesCalls(Protocol):
    """The methods of `AsyncClient` that train sparse codes."""

    @trained(
        with_lens_texts,
        CodesAssembler,
        TrainCodesProgress,
        lacking="training without codes",
        without="weights",
        order="layer dev model codes active mask_rate learning_rate epochs seed truncate memory_bytes",
    )
    def train_codes(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        *,
        layer: SupportsIndex,
        dev: TextOrPair | Iterable[TextOrPair] = (),
        seed: SupportsIndex = 0,
    ) -> SparseCodes:
        """Trains sparse codes of a layer's states on the server: a BatchTopK sparse autoencoder (Bussmann, Leask and Nanda
        2024; Gao et al. 2024). `SparseCodes.change` and `SparseCodes.reconstruct` make changes of them for all other calls.

        Training minimises the squared error over all pieces but special tokens. Scores are of `dev`: the variance explained,
        and the masked-LM loss with the codes' sum in place of the state.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            texts: Texts or pairs to train on, which need no labels: at most 100,000 with 1,000,000 pieces.
        """
