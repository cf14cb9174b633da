"""Runs a graph of another program with an example, in a separate process, where it can do no harm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.onnx.foreign_graphs import INPUTS
from bertscope_service.encoders.onnx.foreign_heads import ANSWER, EXAMPLE, LOGITS, STATES
from bertscope_service.encoders.onnx.sessions import Session, SessionSettings
from bertscope_service.errors import FailedPrecondition

DRAWS, SHORT, LONG = 3, 3, 7
"""How often a text is run alone and beside a longer one, and the tokens of each."""

CLOSE, CLOSE_IN_HALF = 1e-4, 2e-2
"""The largest difference between the two that is rounding, as a share of the largest output; the scale of one in float16 has
10 bits."""


def trial_task(request: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a graph on the CPU. Returns the shapes of its outputs for `EXAMPLE`, and whether a text's depend on the texts that
    are beside it. Raises FailedPrecondition."""
    file = Path(request["file"])
    session = Session(file, SessionSettings(torch.device("cpu"), file.parent, request["threads"], request["optimisation"]))
    asked = set(session.inputs)
    if not {"input_ids", "attention_mask"} <= asked <= INPUTS:
        message = (
            f"{file} reads {', '.join(sorted(asked))}; bertscope hosts graphs that read input_ids, attention_mask and, if they "
            "like, token_type_ids"
        )
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    try:
        example = session.try_run(_feeds(np.zeros(EXAMPLE, dtype=np.int64), np.ones(EXAMPLE, dtype=np.int64)))
    except FailedPrecondition as error:
        message = f"{error.message}; it must take any number of texts of any length"
        raise FailedPrecondition(message, error.reason, source=file) from error
    mixes = _mixes(session, request["vocabulary"], CLOSE_IN_HALF if request["half"] else CLOSE)
    return {"outputs": {name: list(values.shape) for name, values in example.items()}, "mixes": mixes}


def _feeds(ids: NDArray[np.int64], valid: NDArray[np.int64]) -> dict[str, torch.Tensor]:
    tensors = {"input_ids": ids, "attention_mask": valid, "token_type_ids": np.zeros_like(ids)}
    return {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}


def _mixes(session: Session, vocabulary: int, close: float) -> bool:
    """Runs texts that are drawn alone, and beside longer ones with padding. True unless all of them show no difference."""
    drawn = np.random.default_rng(0)
    for _ in range(DRAWS):
        ids = drawn.integers(0, vocabulary, (2, LONG))
        valid = np.ones_like(ids)
        ids[0, SHORT:] = valid[0, SHORT:] = 0
        try:
            alone, beside = session.try_run(_feeds(ids[:1, :SHORT], valid[:1, :SHORT])), session.try_run(_feeds(ids, valid))
        except FailedPrecondition:
            return True
        for name in {LOGITS, *ANSWER, *STATES} & set(alone):
            one, other = alone[name][0].astype(np.float64), beside[name][0].astype(np.float64)
            other = other[:SHORT] if len(other) == LONG != len(one) else other
            if one.shape == other.shape and np.abs(one - other).max() > close * max(1.0, float(np.abs(one).max())):
                return True
    return False
