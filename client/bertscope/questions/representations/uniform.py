"""Declares the calls for what layers hold: `describe_geometry`, `embed_texts`, `attribute_logits`, `train_lens` and others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.representations.attribution import (
    Answers,
    LogitAttribution,
    LogitAttributions,
    asked_attributions,
    read_attributions,
    text_of_attributed,
)
from bertscope.questions.representations.codes import CodesAssembler, SparseCodes, TrainCodesProgress
from bertscope.questions.representations.comparison import RepresentationComparison, read_comparison
from bertscope.questions.representations.geometry import GeometryDescription
from bertscope.questions.representations.geometry_replies import read_geometry
from bertscope.questions.representations.lens import ToRead, asked_readings
from bertscope.questions.representations.states import (
    EmbeddedText,
    EmbeddedTexts,
    HiddenStates,
    StatesAssembler,
    read_embedded_texts,
    with_mean,
    with_texts,
)
from bertscope.questions.representations.tuned_lens import TrainLensProgress, TunedLens, TunedLensAssembler, with_lens_texts
from bertscope.rpc.uniform import each, extracted, total, trained
from bertscope.values.choices import DataType, LensNormalisation, StatePooling, StateQuantity, StateUnit
from bertscope.values.messages import Inputs, asked_inputs, text_of
from bertscope.values.models import Model
from bertscope.values.validation import TextOrPair


class RepresentationCalls(Protocol):
    """The methods of `AsyncClient` for states, geometry, vectors, logits, tuned lenses and sparse codes."""

    @extracted(
        asked_readings,
        StatesAssembler,
        build=with_texts,
        finish=with_mean,
        order="model layers unit pooling quantity dtype",
    )
    def extract_hidden_states(
        self,
        inputs: ToRead | Iterable[ToRead],
        *,
        unit: StateUnit = "piece",
        pooling: StatePooling | None = None,
        quantity: StateQuantity = "hidden",
        dtype: DataType = "float32",
    ) -> HiddenStates:
        """Streams the hidden states of texts, each as soon as it is complete.

        States are [layers, rows, hidden_size], one array for each text and no more memory than that.

        A row is a `unit`: a "piece" of the vocabulary, a "word", a "span" that the text marks (`StatesInput`), or the "text".
        `pooling` joins the pieces of a row: "mean" unless set, "first" ([CLS] of a text), "last" or "max"; "declared" is the
        pooling of a text that a folder of sentence-transformers declares, with its normalisation and its prompt, at the last
        layer. A text's tokens include the special ones.

        `quantity` is what is read of each token: "hidden" states; "head_contexts", the context A V of each head, [layers, rows,
        heads, head_size]; or "feed_forward_activations", what the second matrix of the feed-forward block reads, [layers, rows,
        activations], which PyTorch alone shows. Layers of the last two are the model's, from 0 to the number of layers - 1.

        The call begins when the first states are requested; more texts than a call takes go in one after the other, within one
        `timeout`. Closing the generator cancels it. If the server goes away meanwhile, the missing texts are requested again,
        from another server if there is one.

        Arguments:
            inputs: A text, a tuple of two for a pair, a `StatesInput`, or any number of them, also from a generator.
            dtype: "float32", "float16" or "bfloat16" (half the bytes on the wire).
        """

    @total(asked_inputs, read_geometry, text=text_of)
    def describe_geometry(self, inputs: Inputs, *, words: str | Iterable[str] = ()) -> GeometryDescription:
        """Describes how alike the hidden states of each layer are: of any two words, of the words of a text, of one word.

        The states stay on the server, which sends sums over texts. `second_moments` are needed for `variance_shares` and
        `effective_rank`.
        """

    @total(asked_inputs, read_comparison, text=text_of)
    def compare_representations(self, inputs: Inputs, other_model: str | Model | None = None) -> RepresentationComparison:
        """Compares the states of each two layers by linear CKA: those of `model`, or of `model` and `other_model`.

        `model` runs untouched. A word has one vector, the mean of its pieces' states. Words that two models cut differently are
        joined until both agree. A text of fewer than four words is not compared. The states stay on the server, which sends
        sums over texts.
        """

    @each(asked_inputs, read_embedded_texts, EmbeddedTexts)
    def embed_texts(self, inputs: Inputs, *, pooling: StatePooling | None = None) -> EmbeddedText:
        """Makes one vector of each text or pair: the states of its tokens in the last layer, joined.

        `pooling` is "first", "last", "mean", "max", or "declared": what the model's folder declares for sentence-transformers,
        with its prompt and its most tokens of a text. `vectors` of the result is [texts, size]. Raises Unimplemented for a
        model that shows no hidden states, or declares a pooling that can't be used.
        """

    @each(asked_attributions, read_attributions, LogitAttributions, text=text_of_attributed, order="mask ablate")
    def attribute_logits(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        answers: Answers | Iterable[Answers],
        *,
        mask: SupportsIndex | None = None,
    ) -> LogitAttribution:
        """Attributes the difference of two answers' logits at a mask to heads, feed-forward blocks, biases and the embeddings.

        The terms sum to the difference: layer normalisations are frozen at the statistics that they had, and the masked-LM
        head's activation at its factor. A term is what a part adds at the mask itself. One answer for each text, in order.

        Arguments:
            texts: Any number of texts or pairs, each with a mask.
            answers: A tuple (answer, other answer) for all texts, or one for each; each answer is a single entry of the
                vocabulary.
            mask: The number of the mask in each text, from 0; None means the only one.
            ablate: True: also measure how much the difference falls when each head is zeroed, which runs a text once for each
                head.
        """

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
