# Generated from bertscope/questions/representations/calls.py. Do not edit: change that file, and run `make client`.
# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for what layers hold: `describe_geometry`, `embed_texts`, `attribute_logits`, `train_lens` and others."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import SupportsIndex

from bertscope.client.extraction import TensorStreams
from bertscope.client.many_texts import OnTexts
from bertscope.client.streams import last, whole
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
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import (
    representation_codes_pb2,
    representation_geometry_pb2,
    representation_lens_pb2,
    representation_states_pb2,
    representation_tuned_lens_pb2,
)
from bertscope.values.choices import DataType, LensNormalisation, StatePooling, StateQuantity, StateUnit
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Inputs, Numbers, asked_inputs, text_of, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.validation import TextOrPair


class RepresentationCalls(TensorStreams):
    """The methods of `Client` for states, geometry, vectors, logits, tuned lenses and sparse codes."""

    def extract_hidden_states(
        self,
        inputs: ToRead | Iterable[ToRead],
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        unit: StateUnit = "piece",
        pooling: StatePooling | None = None,
        quantity: StateQuantity = "hidden",
        dtype: DataType = "float32",
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[HiddenStates, None, None]:
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
            model: The model's name or a `Model`; None means the server's default model.
            layers: Requested layers, each 0 (the embeddings) to the layers of the model, of contexts and activations to layers
                - 1; none twice, in the order of the tensor. None means all, or the last for "declared".
            unit: What a row is of: "piece", "word", "span" or "text".
            pooling: How the states of a unit's pieces become one: "first", "last", "mean", "max" or "declared"; must be None
                for pieces.
            quantity: What is read of each token, and joined for words, spans and texts as states are: "hidden", "head_contexts"
                or "feed_forward_activations".
            dtype: "float32", "float16" or "bfloat16" (half the bytes on the wire).
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the header. False: such a text is an
                error. A span that would be cut, or cut away, is an error in either case.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for the call; None means no limit.
        """
        request = with_mean(
            request_of(
                representation_states_pb2.ExtractHiddenStatesRequest,
                model=model,
                layers=layers,
                unit=unit,
                pooling=pooling,
                quantity=quantity,
                dtype=dtype,
                interventions=interventions,
                reference_texts=reference_texts,
                truncate=truncate,
            )
        )
        return self._extract(
            partial(with_texts, request),
            representation_states_pb2.ExtractHiddenStatesResponse,
            StatesAssembler,
            asked_readings(inputs),
            timeout,
            on_rejected,
        )

    def describe_geometry(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        pieces: bool = False,
        special_tokens: bool = False,
        words: str | Iterable[str] = (),
        second_moments: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> GeometryDescription:
        """Describes how alike the hidden states of each layer are: of any two words, of the words of a text, of one word.

        The states stay on the server, which sends sums over texts. `second_moments` are needed for `variance_shares` and
        `effective_rank`.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers to describe, each 0 (the embeddings) to layers of the model, none twice; None means all. The reply is
                in this order.
            pieces: True: a vector for each piece. False: one for each word, the mean of its pieces' states.
            special_tokens: True: special tokens ([CLS], [SEP]) have vectors too, a word each. False: they are left out.
            words: Words whose vectors are also summed by themselves, at most 1,000 of at most 1,000 code points, none empty,
                none twice; letter case is ignored. A word or piece counts as the text it covers. Those that no text has are no
                error.
            second_moments: True: also sum the products of the vectors' components. They take `hidden_size` * (`hidden_size` +
                1) * 2 bytes a layer in the reply, and, while a call runs, twice as many for each 1,024 tokens; more than 256
                MiB are an error.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and count them. False: such a text is an error.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            representation_geometry_pb2.DescribeGeometryRequest,
            model=model,
            layers=layers,
            pieces=pieces,
            special_tokens=special_tokens,
            words=words,
            second_moments=second_moments,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        asked = asked_inputs(inputs)
        answers = self._answers(
            asked,
            partial(with_items, request, "inputs"),
            representation_geometry_pb2.DescribeGeometryResponse,
            lambda _, reply: [read_geometry(reply, request)],
            timeout,
            pace=self._pace(text_of, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return self._sum(answers, GeometryDescription.merge, asked.total, on_progress)

    def compare_representations(
        self,
        inputs: Inputs,
        other_model: str | Model | None = None,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        other_layers: Numbers | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> RepresentationComparison:
        """Compares the states of each two layers by linear CKA: those of `model`, or of `model` and `other_model`.

        `model` runs untouched. A word has one vector, the mean of its pieces' states. Words that two models cut differently are
        joined until both agree. A text of fewer than four words is not compared. The states stay on the server, which sends
        sums over texts.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            other_model: The second model, which may be the first one; None means the first one. It runs under the
                interventions.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers of the first model, each 0 (the embeddings) to layers of the model, none twice; None means all.
            other_layers: Likewise of the second one; None means all, and the same as `layers` if both models are one.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than either model reads, and count them. False: such a text is an error.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            representation_geometry_pb2.CompareRepresentationsRequest,
            other_model=other_model,
            model=model,
            layers=layers,
            other_layers=other_layers,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        asked = asked_inputs(inputs)
        answers = self._answers(
            asked,
            partial(with_items, request, "inputs"),
            representation_geometry_pb2.CompareRepresentationsResponse,
            lambda _, reply: [read_comparison(reply, request)],
            timeout,
            pace=self._pace(text_of, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return self._sum(answers, RepresentationComparison.merge, asked.total, on_progress)

    def embed_texts_stream(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        pooling: StatePooling | None = None,
        normalize: bool | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[EmbeddedText, None, None]:
        """Makes one vector of each text or pair: the states of its tokens in the last layer, joined.

        `pooling` is "first", "last", "mean", "max", or "declared": what the model's folder declares for sentence-transformers,
        with its prompt and its most tokens of a text. `vectors` of the result is [texts, size]. Raises Unimplemented for a
        model that shows no hidden states, or declares a pooling that can't be used.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            pooling: How the states of a text's tokens in the last layer become one vector. None means "declared" for a model
                whose folder declares a pooling, else "mean".
            normalize: True: vectors are divided by their length, so that the product of two is their cosine. None means what
                the folder declares with "declared", else False.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, or than its folder declares, and say so. False: such
                a text is an error.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            representation_states_pb2.EmbedTextsRequest,
            model=model,
            pooling=pooling,
            normalize=normalize,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._answers(
            asked_inputs(inputs),
            partial(with_items, request, "inputs"),
            representation_states_pb2.EmbedTextsResponse,
            read_embedded_texts,
            timeout,
            large=bool(request.reference_texts),
            on_rejected=on_rejected,
        )

    embed_texts = whole(embed_texts_stream, EmbeddedTexts)

    def attribute_logits_stream(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        answers: Answers | Iterable[Answers],
        *,
        mask: SupportsIndex | None = None,
        ablate: bool = False,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[LogitAttribution, None, None]:
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
            model: The model's name or a `Model`; None means the server's default model.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error, and so is one whose mask would be cut away.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            representation_lens_pb2.AttributeLogitsRequest,
            ablate=ablate,
            model=model,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._answers(
            asked_attributions(texts, answers, mask),
            partial(with_items, request, "inputs"),
            representation_lens_pb2.AttributeLogitsResponse,
            read_attributions,
            timeout,
            pace=self._pace(text_of_attributed, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )

    attribute_logits = whole(attribute_logits_stream, LogitAttributions)

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

        Training minimises KL(last || this) over all pieces but special tokens.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            texts: Texts or pairs to train on, which need no labels: at most 100,000 with 1,000,000 pieces.
            dev: Texts that decide when training ends, and that scores are of; empty splits a tenth of the training texts off,
                chosen by `seed`.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers to train maps for: 0, the embeddings, to layers of the model less 1, none twice; None means all.
            mask_rate: The share of pieces that are replaced by masks before the model reads them, each chosen by chance: 0 to
                1; None means 0.15, as BERT was trained (Devlin et al. 2019, section 3.1). Without masks a lens learns to read
                states of words that the model sees, and is then used at masks.
            normalisation: What the head gets: a state after its map, or that after the last normalisation of the model too:
                "none" or "final".
            learning_rate: Adam's first learning rate, more than 0 and at most 1; None means 0.001. It is halved after each
                epoch that does not lower the loss on the dev texts.
            max_epochs: Most passes over the training texts, 1 to 1,000; None means 20.
            patience: Training of a map ends after so many epochs without a lower loss on the dev texts, 1 to 1,000; None means
                4.
            seed: Draws the masks, the order of pieces and the dev texts.
            truncate: True: cut texts that are longer than the model reads. False: such a text is an error.
            memory_bytes: Most memory that the call takes for states and maps, bytes, 1 to the server's limit; None means that
                limit. States beyond it are kept in a file.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            timeout: Seconds for the call; None means no limit.
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
