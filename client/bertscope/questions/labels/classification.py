"""Labels of texts: the request of Classify, its reply and its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bertscope.errors import InvalidReply
from bertscope.v1 import classification_pb2, common_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, record
from bertscope.values.lazy import ReadOnUse, made
from bertscope.values.messages import Interventions, head_interventions, provenance
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Results

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClassifiedText", "ClassifiedTexts", "LabelPrediction"]

LABEL_COLUMNS = ["text", "text_pair", "order", "label", "index", "probability", "logit"]


@record
class LabelPrediction:
    """One label of a text."""

    label: str
    """Its name in the model's config ("positive", "LABEL_0")."""
    index: int
    """Its index, 0 to the number of labels - 1."""
    probability: float
    """0 to 1: softmax over all labels; of a multi-label model, sigmoid of this one."""
    logit: float
    """The model's score before the softmax or the sigmoid."""


@record
class ClassifiedText(ReadOnUse):
    """The labels of one text."""

    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    labels: tuple[LabelPrediction, ...]
    """Every label of the model, likeliest first."""
    tokens: int
    """Number of tokens that the model read, special tokens included."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the predictions."""
    multi_label: bool = False
    """True if any number of labels may hold, so that the probabilities do not sum to 1."""

    @staticmethod
    def _read(message: classification_pb2.ClassifiedText) -> dict[str, object]:
        labels = tuple(map(label_prediction, message.labels))
        return {"labels": labels, "tokens": message.tokens, "truncated_tokens": message.truncated_tokens}

    @property
    def label(self) -> str:
        """Name of the likeliest label."""
        return self.labels[0].label

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`: the likeliest label, and all labels, likeliest first."""
        return {
            "predicted_label": self.label,
            "labels": [each.label for each in self.labels],
            "probabilities": [each.probability for each in self.labels],
            "truncated_tokens": self.truncated_tokens,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each label; columns as `ClassifiedTexts.to_pandas`."""
        return _table([self])


class ClassifiedTexts(Results[ClassifiedText]):
    """The answers of one `classify` call, one for each text or pair, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each label: text, text_pair, order (1 is the likeliest), label, index, probability, logit. Needs
        the extra "pandas"."""
        return _table(self)


def classify_request(
    *,
    model: str | Model | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> classification_pb2.ClassifyRequest:
    """Returns the request of Classify, without its inputs."""
    return classification_pb2.ClassifyRequest(
        model=model_name("model", model),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def read_classified_texts(
    inputs: Sequence[common_pb2.TextInput], response: classification_pb2.ClassifyResponse
) -> ClassifiedTexts:
    """Returns the labels, each list of them with its text or pair."""
    results = response.results
    if len(results) != len(inputs):
        raise InvalidReply(f"the server answered {len(results)} of {len(inputs)} texts")
    if not all(result.labels for result in results):
        raise InvalidReply("the server answered a text without a label")
    source = provenance(response.provenance)
    return ClassifiedTexts(
        made(
            ClassifiedText,
            text=asked.text,
            text_pair=asked.text_pair if asked.HasField("text_pair") else None,
            provenance=source,
            multi_label=response.multi_label,
            _place=(results, index),
        )
        for index, asked in enumerate(inputs)
    )


def label_prediction(message: classification_pb2.LabelPrediction) -> LabelPrediction:
    """Returns one label."""
    return made(LabelPrediction, label=message.label, index=message.index, probability=message.probability, logit=message.logit)


def _table(results: Iterable[ClassifiedText]) -> pd.DataFrame:
    """Returns a row for each label."""
    rows = [
        (result.text, result.text_pair, order, label.label, label.index, label.probability, label.logit)
        for result in results
        for order, label in enumerate(result.labels, start=1)
    ]
    return data_frame(rows, LABEL_COLUMNS)
