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
