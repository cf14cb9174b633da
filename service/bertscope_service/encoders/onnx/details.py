"""The details of exported graphs in their manifest: the model's shape and its capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bertscope_service.encoders.base import Capabilities, Shape

FORMER_NAMES = {
    "masked_lm": "has_masked_lm_head",
    "prunable": "prunable",
    "differentiable": "differentiable",
    "observable": "observable",
    "hidden_states": "hidden_states",
    "drops_tokens": "drops_tokens",
}
"""Capabilities that manifests written up to version 0.1.0 name as parts of the shape; that of classification they leave to the
labels."""


def write_details(shape: Shape, capabilities: Capabilities) -> dict[str, Any]:
    """As JSON."""
    return {"shape": asdict(shape), "capabilities": asdict(capabilities)}


def read_details(details: Mapping[str, Any]) -> tuple[Shape, Capabilities]:
    """Raises KeyError, TypeError, ValueError or AttributeError for what is missing or malformed."""
    shape = {key: value for key, value in details["shape"].items() if key not in FORMER_NAMES.values()}
    pruned = {int(layer): tuple(heads) for layer, heads in shape.pop("pruned").items()}
    names = {key: tuple(shape.get(key, ())) for key in ("labels", "head_labels")}
    return Shape(**{**shape, **names}, pruned=pruned), Capabilities(**read_capabilities(details))


def read_capabilities(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a manifest's capabilities by today's names. Raises KeyError for a manifest without a shape."""
    if "capabilities" in details:
        found: Mapping[str, Any] = details["capabilities"]
        return found
    shape = details["shape"]
    former = {name: shape[key] for name, key in FORMER_NAMES.items() if key in shape}
    return {**former, "classification": bool(shape["labels"])}
