"""Vectors of texts: the request of EmbedTexts, its reply and its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.questions.representations.states import POOLING, POOLINGS
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_states_pb2 as states_pb2
from bertscope.values import validation
from bertscope.values.choices import StatePooling
from bertscope.values.display import data_frame, short_repr
from bertscope.values.messages import Interventions, enum_name, head_interventions, provenance
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Results
from bertscope.values.tensors import matrix

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EmbeddedText", "EmbeddedTexts"]


@dataclass(frozen=True, eq=False)
class EmbeddedText:
    """The vector of one text or pair. Compared by identity, as numpy arrays have no single truth value."""

    __repr__ = short_repr

    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    vector: npt.NDArray[np.float32]
    """[size]: the model's hidden size, or a multiple if its folder declares several poolings."""
    tokens: int
    """Number of tokens that the model read, special tokens and those of a declared prompt included."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    pooling: str
    """How the states of the last layer became the vector, as `embed_texts` names it."""
    normalized: bool
    """True if the vector was divided by its length."""
    provenance: Provenance
    """Provenance of the vector."""

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`: the vector, and the number of tokens that were cut away."""
        return {"vector": self.vector.tolist(), "truncated_tokens": self.truncated_tokens}


class EmbeddedTexts(Results[EmbeddedText]):
    """The answers of one `embed_texts` call, one for each text or pair, in order."""

    __slots__ = ()

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """All vectors, [texts, size]."""
        return np.stack([one.vector for one in self]) if self else np.empty((0, 0), np.float32)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each text: text, text_pair, vector, tokens, truncated_tokens. Needs the extra "pandas"."""
        rows = [(one.text, one.text_pair, one.vector, one.tokens, one.truncated_tokens) for one in self]
        return data_frame(rows, ["text", "text_pair", "vector", "tokens", "truncated_tokens"])


def embed_texts_request(
    *,
    model: str | Model | None,
    pooling: StatePooling | None,
    normalize: bool | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> states_pb2.EmbedTextsRequest:
    """Returns the request of EmbedTexts, without its inputs."""
    chosen = states_pb2.STATE_POOLING_UNSPECIFIED if pooling is None else validation.choice("pooling", pooling, POOLINGS)
    return states_pb2.EmbedTextsRequest(
        model=model_name("model", model),
        pooling=chosen,
        normalize=None if normalize is None else validation.flag("normalize", normalize),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def read_embedded_texts(inputs: Sequence[common_pb2.TextInput], response: states_pb2.EmbedTextsResponse) -> EmbeddedTexts:
    """Returns the vectors, each with its text or pair. Raises InvalidReply unless there is one for each."""
    vectors, source = matrix(response.vectors), provenance(response.provenance)
    if {len(vectors), len(response.tokens), len(response.truncated_tokens)} != {len(inputs)}:
        raise InvalidReply(f"the server sent {len(vectors)} vectors of {len(inputs)} texts")
    pooling = enum_name(states_pb2.StatePooling, response.pooling, POOLING)
    rows = zip(inputs, vectors, response.tokens, response.truncated_tokens, strict=True)
    return EmbeddedTexts(
        EmbeddedText(
            text=asked.text,
            text_pair=asked.text_pair if asked.HasField("text_pair") else None,
            vector=vector,
            tokens=tokens,
            truncated_tokens=truncated,
            pooling=pooling,
            normalized=response.normalized,
            provenance=source,
        )
        for asked, vector, tokens, truncated in rows
    )
