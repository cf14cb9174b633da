"""Takes from a document of claims, as `bertscope primer` writes it, what the Results view shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cells import cell

PRIMER = {"primer", "models", "claims"}
"""The parts of such a document."""
MAX_CLAIMS, MAX_TESTS, MAX_MODELS, MAX_FIGURES = 500, 20, 50, 200
FIGURES = {"figures": ("group", "metric", "value", "items"), "published": ("group", "metric", "value", "verdict")}
CLAIM = ("name", "section", "section_title", "title", "claim", "explained", "paper")
TEST = ("name", "measured", "unit", "control", "holds", "threshold", "reason")
RESULT = ("verdict", "why", "value", "control", "difference", "low", "high", "items", "data")


def claims_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `{"models": [name], "claims": [{..., "verdicts": [...], "tests": [{..., "results": [{...}]}], "reproduction":
    [{..., "figures": [{...}], "published": [{...}]}]}]}`, of at most 500 claims with 20 tests, 50 models and 200 figures.
    Raises KeyError and TypeError for another document."""
    models = [cell(model["name"]) for model in document["models"][:MAX_MODELS]]
    return {"models": models, "claims": [_claim(claim) for claim in document["claims"][:MAX_CLAIMS]]}


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    verdicts = [cell(verdict) for verdict in claim["verdicts"][:MAX_MODELS]]
    reproduced = [_reproduced(found) for found in claim.get("reproduction", ())[:MAX_MODELS]]
    tests = [_test(test) for test in claim["tests"][:MAX_TESTS]]
    return _cells(claim, CLAIM) | {"verdicts": verdicts, "tests": tests, "reproduction": reproduced}


def _reproduced(found: Mapping[str, Any]) -> dict[str, Any]:
    tables = {name: [_cells(each, keys) for each in found[name][:MAX_FIGURES]] for name, keys in FIGURES.items()}
    return {"model": cell(found["model"]), **tables}


def _test(test: Mapping[str, Any]) -> dict[str, Any]:
    return _cells(test, TEST) | {"results": [_cells(result, RESULT) for result in test["results"][:MAX_MODELS]]}


def _cells(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: cell(values.get(name)) for name in names}
