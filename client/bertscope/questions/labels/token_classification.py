"""Labels of words: the request of ClassifyTokens, its reply and its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, SupportsIndex

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.labels.classification import LabelPrediction, label_prediction
from bertscope.v1 import classification_pb2, common_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, record
from bertscope.values.labelled_texts import AskedText, ProbeText, UnlabelledText
from bertscope.values.messages import Asked, Interventions, enum_name, head_interventions, provenance, text_input
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Results
from bertscope.values.validation import TextOrPair

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Mention", "TaggedText", "TaggedTexts", "TaggedWord"]

WORD_COLUMNS = ["text", "word", "start", "end", "segment", "order", "label", "index", "probability", "logit"]

ToTag = TextOrPair | UnlabelledText | ProbeText
"""A text or a pair, whose words are the tokenizer's own, or a text with marked words."""


@record
class TaggedWord:
    """One word with its labels."""

    text: str
    """The word."""
    start: int
    """First code point in its text."""
    end: int
    """One past its last code point."""
    segment: int
    """0 for the text, 1 for the second text of a pair."""
    labels: tuple[LabelPrediction, ...]
    """Its `top_k` likeliest labels, likeliest first; none for a marked word that was cut away or in which no piece begins."""

    @property
    def label(self) -> str | None:
        """Name of the likeliest label; None for a word without one."""
        return self.labels[0].label if self.labels else None


@record
class Mention:
    """Consecutive words whose labels make them one: a named entity or a chunk."""

    type: str
    """The part of the labels' names after the prefix: "PER" of "B-PER"."""
    text: str
    """From its first word to its last."""
    start: int
    """First code point in its text."""
    end: int
    """One past its last code point."""
    segment: int
    """0 for the text, 1 for the second text of a pair."""
    probability: float
    """Mean probability of its words' likeliest labels, 0 to 1."""


@record
class TaggedText:
    """The words of one text with their labels."""

    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    words: tuple[TaggedWord, ...]
    """The marked words, as they were given, or else the tokenizer's own that were read, in the order of the text."""
    mentions: tuple[Mention, ...]
    """The mentions, in the order of the text; none if the `scheme` is "none"."""
    scheme: str
    """How the labels' names say what a mention is: "iob" (IOB1 and IOB2), "iobes", "bilou", or "none" for names that don't."""
    tokens: int
    """Number of tokens that the model read, special tokens included."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the predictions."""

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`: the words with their likeliest labels, and the mentions."""
        return {
            "words": [word.text for word in self.words],
            "labels": [word.label for word in self.words],
            "probabilities": [word.labels[0].probability if word.labels else None for word in self.words],
            "mentions": [mention.text for mention in self.mentions],
            "types": [mention.type for mention in self.mentions],
            "truncated_tokens": self.truncated_tokens,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each label of each word; columns as `TaggedTexts.to_pandas`."""
        return _table([self])


class TaggedTexts(Results[TaggedText]):
    """The answers of one `classify_tokens` call, one for each text or pair, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each label of each word: text, its number from 0, word, start, end, segment, order (1 is the
        likeliest), label, index, probability, logit. Needs the extra "pandas"."""
        return _table(self)


def classify_tokens_request(
    *,
    model: str | Model | None,
    top_k: SupportsIndex,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> classification_pb2.ClassifyTokensRequest:
    """Returns the request of ClassifyTokens, without its inputs."""
    return classification_pb2.ClassifyTokensRequest(
        model=model_name("model", model),
        top_k=validation.positive("top_k", top_k),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def asked_words(inputs: ToTag | Iterable[ToTag]) -> Asked[classification_pb2.TaggedInput]:
    """Returns any number of texts. A sequence is checked at once, an iterator as it is read."""
    pair = isinstance(inputs, tuple) and not isinstance(inputs, validation.Many) and any(isinstance(one, str) for one in inputs)
    given: Any = [inputs] if pair or isinstance(inputs, (str, UnlabelledText, ProbeText)) else inputs
    values = enumerate(validation.many("inputs", given, "texts"))
    made = (_tagged_input(index, value) for index, value in values)
    if isinstance(given, Sized):
        found = list(made)
        return Asked(iter(found), len(found))
    return Asked(made, None)


def _tagged_input(index: int, value: object) -> classification_pb2.TaggedInput:
    if not isinstance(value, (UnlabelledText, ProbeText)):
        return classification_pb2.TaggedInput(input=text_input(validation.text_or_pair(f"inputs[{index}]", value)))
    spans = AskedText(index, value).spans
    if any(one.other is not None for one in spans):
        raise invalid_argument(f"inputs[{index}]", "marks pairs of parts; mark words alone")
    places = (one.place for one in spans)
    words = [common_pb2.CharacterSpan(start=place.start, end=place.end, segment=place.segment) for place in places]
    return classification_pb2.TaggedInput(input=text_input(value.text), words=words)


def read_tagged_texts(
    inputs: Sequence[classification_pb2.TaggedInput], response: classification_pb2.ClassifyTokensResponse
) -> Iterator[TaggedText]:
    """Yields the words of each text or pair with their labels."""
    if len(response.results) != len(inputs):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(inputs)} texts")
    source = provenance(response.provenance)
    scheme = enum_name(classification_pb2.LabelScheme, response.scheme, "LABEL_SCHEME_")
    for asked, result in zip(inputs, response.results, strict=True):
        if asked.words and len(asked.words) != len(result.words):
            raise InvalidReply(f"the server answered {len(result.words)} of {len(asked.words)} words of a text")
        texts = (asked.input.text, asked.input.text_pair)
        yield TaggedText(
            text=texts[0],
            text_pair=texts[1] if asked.input.HasField("text_pair") else None,
            words=tuple(
                TaggedWord(*_place(texts, word.span), labels=tuple(map(label_prediction, word.labels))) for word in result.words
            ),
            mentions=tuple(
                Mention(mention.type, *_place(texts, mention.span), probability=mention.probability)
                for mention in result.mentions
            ),
            scheme=scheme,
            tokens=result.tokens,
            truncated_tokens=result.truncated_tokens,
            provenance=source,
        )


def _place(texts: tuple[str, str], span: common_pb2.CharacterSpan) -> tuple[str, int, int, int]:
    """Returns what a part covers, its first code point, the one past its last, and its segment."""
    if span.segment > 1 or span.end > len(texts[span.segment]):
        raise InvalidReply(f"the server answered a word that ends at {span.end}, after the end of its text")
    return texts[span.segment][span.start : span.end], span.start, span.end, span.segment


def _table(results: Iterable[TaggedText]) -> pd.DataFrame:
    """Returns a row for each label of each word."""
    rows = [
        (number, word.text, word.start, word.end, word.segment, order, label.label, label.index, label.probability, label.logit)
        for number, result in enumerate(results)
        for word in result.words
        for order, label in enumerate(word.labels, start=1)
    ]
    return data_frame(rows, WORD_COLUMNS)
