"""Values of texts and pairs: the request of PredictValues, its reply and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bertscope.errors import InvalidReply
from bertscope.v1 import classification_pb2, common_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, record
from bertscope.values.messages import Interventions, head_interventions, provenance
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Results

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PredictedValue", "PredictedValues", "RankedCandidate", "RankedCandidates"]


@record
class PredictedValue:
    """The value of one text or pair."""

    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    value: float
    """The output of the model's head, in the unit of the data that it was trained on; no probability."""
    tokens: int
    """Number of tokens that the model read, special tokens included."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the value."""

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`: the value, and the number of tokens that were cut away."""
        return {"value": self.value, "truncated_tokens": self.truncated_tokens}


class PredictedValues(Results[PredictedValue]):
    """The answers of one `predict_values` call, one for each text or pair, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each text: text, text_pair, value, truncated_tokens. Needs the extra "pandas"."""
        rows = [(one.text, one.text_pair, one.value, one.truncated_tokens) for one in self]
        return data_frame(rows, ["text", "text_pair", "value", "truncated_tokens"])


@record
class RankedCandidate:
    """One candidate for a query, with its value."""

    candidate: str
    """The text."""
    index: int
    """Its place in the candidates that were given, from 0."""
    value: float
    """The model's value of the pair (query, candidate)."""
    truncated_tokens: int
    """Number of tokens of the query and the candidate that were cut away."""
    provenance: Provenance
    """Provenance of the value."""


class RankedCandidates(Results[RankedCandidate]):
    """The candidates of one `rank_candidates` call, highest value first; equal ones in the order in which they were given."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each candidate: rank (1 is the highest value), candidate, index, value, truncated_tokens. Needs
        the extra "pandas"."""
        rows = [(rank, one.candidate, one.index, one.value, one.truncated_tokens) for rank, one in enumerate(self, start=1)]
        return data_frame(rows, ["rank", "candidate", "index", "value", "truncated_tokens"])


def predict_values_request(
    *,
    model: str | Model | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> classification_pb2.PredictValuesRequest:
    """Returns the request of PredictValues, without its inputs."""
    return classification_pb2.PredictValuesRequest(
        model=model_name("model", model),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def read_predicted_values(
    inputs: Sequence[common_pb2.TextInput], response: classification_pb2.PredictValuesResponse
) -> PredictedValues:
    """Returns the values, each with its text or pair."""
    if len(response.results) != len(inputs):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(inputs)} texts")
    source = provenance(response.provenance)
    return PredictedValues(
        PredictedValue(
            text=asked.text,
            text_pair=asked.text_pair if asked.HasField("text_pair") else None,
            value=result.value,
            tokens=result.tokens,
            truncated_tokens=result.truncated_tokens,
            provenance=source,
        )
        for asked, result in zip(inputs, response.results, strict=True)
    )


def query_pairs(query: str, candidates: str | Iterable[str]) -> list[tuple[str, str]]:
    """Returns the pair of a query and each candidate, the query first."""
    first = validation.text("query", query)
    return [(first, candidate) for candidate in validation.texts("candidates", candidates)]


def ranked_candidates(values: Sequence[PredictedValue]) -> RankedCandidates:
    """Returns the second texts of pairs by their values, highest first."""
    found = [
        RankedCandidate(one.text_pair or "", index, one.value, one.truncated_tokens, one.provenance)
        for index, one in enumerate(values)
    ]
    return RankedCandidates(sorted(found, key=lambda one: -one.value))
