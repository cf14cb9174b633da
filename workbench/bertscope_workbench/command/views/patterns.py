"""Summarises the attention of heads in a few numbers: the patterns named by Clark et al. and Kovaleva et al. (both 2019)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from bertscope import AttentionMaps

PerHead = npt.NDArray[np.float64]


def attention_patterns(maps: AttentionMaps) -> Mapping[str, PerHead]:
    """Returns the mean weight that the tokens of a text give to a place, [layers, heads] for each place.

    The places: the first special token, the other special tokens together, the token itself, the one before, the next.
    """
    attention = maps.attention.astype(np.float64)
    special = [index for index, token in enumerate(maps.tokens) if token.special]
    patterns: dict[str, PerHead] = {}
    if special:
        patterns[maps.tokens[special[0]].text] = attention[..., special[0]].mean(-1)
    if special[1:]:
        patterns[maps.tokens[special[-1]].text] = attention[..., special[1:]].sum(-1).mean(-1)
    patterns["itself"] = _diagonal_mean(attention, 0)
    patterns["previous"] = _diagonal_mean(attention, -1)
    patterns["next"] = _diagonal_mean(attention, 1)
    return patterns


def entropy_nats(maps: AttentionMaps) -> PerHead:
    """Returns the mean entropy of the rows of each head, nats, [layers, heads]; Clark et al. 2019. 0: one token; ln L: all L
    alike."""
    attention = maps.attention.astype(np.float64)
    logarithms = np.log(attention, out=np.zeros_like(attention), where=attention > 0)
    entropy: PerHead = -(attention * logarithms).sum(-1).mean(-1)
    return entropy


def _diagonal_mean(attention: npt.NDArray[Any], offset: int) -> PerHead:
    diagonal = np.diagonal(attention, offset, axis1=-2, axis2=-1)
    mean: PerHead = diagonal.mean(-1) if diagonal.shape[-1] else np.zeros(attention.shape[:2])
    return mean
