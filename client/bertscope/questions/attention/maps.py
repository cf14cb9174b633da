"""Defines the attention maps of a text, and the request for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.questions.attention.quantities import BY_HEAD
from bertscope.v1 import attention_pb2
from bertscope.values import validation
from bertscope.values.display import MAX_WEIGHTS, data_frame, page_html, record
from bertscope.values.messages import DATA_TYPES, QUANTITIES, Interventions, Numbers, head_interventions
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Token
from bertscope.values.workbench import has_workbench, of_workbench

if TYPE_CHECKING:
    import pandas as pd
    from bertscope_workbench.plots.attention_page import AttentionPage, Choice

__all__ = ["AttentionMaps"]


@record(eq=False)
class AttentionMaps:
    """The attention maps of one text. Compared by identity, as numpy arrays have no single truth value."""

    input_index: int
    """Index of the text among the call's inputs."""
    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    tokens: tuple[Token, ...]
    """Tokens of the rows and columns, L of them."""
    attention: npt.NDArray[np.floating[Any]]
    """[layers, heads, L, L], float32 or float16; row i is the attention of token i to every token. Rows of weights sum to 1."""
    layers: tuple[int, ...]
    """Layer of each slice along the first dimension."""
    heads: tuple[int, ...]
    """Head of each slice along the second dimension; (0,) for a quantity that a layer has once."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the maps."""
    quantity: str = "weights"
    """The numbers of the maps, as `extract_attention` names them."""

    def _repr_html_(self) -> str | None:
        """Returns the interactive page of `attention_page`; None, which shows text, for very many weights or
        without the workbench."""
        if self.attention.size > MAX_WEIGHTS or not has_workbench():
            return None
        return page_html(of_workbench("attention_page")(self))

    def show(self, layer: Choice = None, head: Choice = None, *, title: str | None = None) -> AttentionPage:
        """Returns the interactive page of some layers and heads, all unless chosen: a notebook shows it, `save` writes it.

        The maps alone show themselves in a notebook, too, unless they are very many; choose layers then. Raises the errors of
        `attention_page`, and ImportError without the workbench.
        """
        page: AttentionPage = of_workbench("AttentionPage")(of_workbench("attention_page")(self, layer, head, title=title))
        return page

    @property
    def by_head(self) -> bool:
        """True if each head has maps of its own, False if a layer has one map."""
        return self.quantity in BY_HEAD

    def layer(self, layer: int) -> npt.NDArray[np.floating[Any]]:
        """Returns the map of a quantity that a layer has once, [L, L].

        Raises KeyError for a layer that the call did not request, ValueError for a quantity of heads.
        """
        if self.by_head:
            raise ValueError(f"heads have {self.quantity} of their own; name one: head({layer}, 0)")
        return self.head(layer, 0)

    def head(self, layer: int, head: int) -> npt.NDArray[np.floating[Any]]:
        """Returns the map of one head, [L, L], by the numbers of its layer and head (not by their place in the array).

        Raises KeyError for a layer or head that the call did not request.
        """
        if layer not in self.layers or head not in self.heads:
            raise KeyError(f"layer {layer}, head {head}: the maps hold layers {self.layers} and heads {self.heads}")
        result: npt.NDArray[np.floating[Any]] = self.attention[self.layers.index(layer), self.heads.index(head)]
        return result

    def without_special_tokens(self) -> AttentionMaps:
        """Returns the maps without the rows and columns of special tokens, which often get most of the attention; weights stay
        as they are, so that rows no longer sum to 1. Raises ValueError if no other token is left."""
        kept = [place for place, token in enumerate(self.tokens) if not token.special]
        if not kept:
            raise ValueError("all tokens of the text are special")
        attention = self.attention[:, :, kept][:, :, :, kept]
        return dataclasses.replace(self, tokens=tuple(self.tokens[place] for place in kept), attention=attention)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each weight (layers x heads x L x L of them): layer, head, from_index, from_token, to_index,
        to_token, attention. Needs the extra "pandas"."""
        layer, head, row, column = np.indices(self.attention.shape).reshape(4, -1)
        texts = np.array([token.text for token in self.tokens], dtype=object)
        return data_frame(
            {
                "layer": np.array(self.layers)[layer],
                "head": np.array(self.heads)[head],
                "from_index": row,
                "from_token": texts[row],
                "to_index": column,
                "to_token": texts[column],
                "attention": self.attention.reshape(-1).astype(np.float32, copy=False),  # pandas computes little in float16
            }
        )


def extract_attention_request(
    *,
    model: str | Model | None,
    layers: Numbers | None,
    heads: Numbers | None,
    words: bool,
    dtype: str,
    quantity: str,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> attention_pb2.ExtractAttentionRequest:
    """Returns the request of ExtractAttention, without its inputs."""
    level = attention_pb2.ATTENTION_LEVEL_WORD if validation.flag("words", words) else None
    return attention_pb2.ExtractAttentionRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        heads=validation.uint32s("heads", heads),
        dtype=validation.choice("dtype", dtype, DATA_TYPES),
        quantity=validation.choice("quantity", quantity, QUANTITIES),
        level=level or attention_pb2.ATTENTION_LEVEL_PIECE,
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )
