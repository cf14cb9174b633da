"""Every argument of every request, by itself: what is sent of it, and which values are refused, and how."""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import bertscope
import bertscope.questions
import pytest

from tests.support.stored_outputs import short

NOT_ITS_OWN = {"interventions", "reference_texts", "model"}
VALUES: list[Any] = [None, True, 0, 7, 2**32, -1, 0.5, math.nan, "x", "\ud800", [], ["x", 3], [1, 2], {1: [0]}, {1: []}]


def builders() -> dict[str, Callable[..., Any]]:
    """The functions that build requests, by the names of their calls."""
    found = {}
    for module in pkgutil.walk_packages(bertscope.questions.__path__, "bertscope.questions."):
        if module.name.endswith("uniform"):  # declarations, which are read by `make client`
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.endswith("_request") and inspect.isfunction(value) and value.__module__ == module.name:
                found[name.removesuffix("_request")] = value
    return found


BUILDERS = builders()
OBJECTIVES = ("ClozePrompts", "LabelledQuestions", "MaskedLmLoss", "MinimalPairs", "SimilarTexts")
BUILDERS |= {name: getattr(bertscope, name) for name in (*OBJECTIVES, "Bootstrap", "Greedy", "MapView", "Retries")}
PARTS = ("half", "keep_layers", "magnitude", "remove_feed_forward", "scale", "reduce_vocabulary", "weight_only", "zero")
BUILDERS |= {name: getattr(bertscope, name) for name in (*PARTS, "Fact", "Answer", "SimilarTo")}
GIVEN: dict[str, Any] = {"text": "A [MASK].", "source": "org/x", "model_id": "x", "steps": [], "layer": 1, "folder": "/a"}
GIVEN |= {"objective": bertscope.MaskedLmLoss("a"), "train": "a", "dev": "a", "texts": "a", "layers": 0}
GIVEN |= {"heads": "all", "factor": 0.5, "share": 0.5}
GIVEN |= {"prompts": [], "questions": [], "pairs": [], "subject": "a", "objects": "b", "answer": "a", "other": "b"}


def arguments_of(builder: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments of a function that builds requests; where it passes them on by `**`, those of the client's method."""
    own = inspect.signature(builder).parameters
    method = getattr(bertscope.Client, builder.__name__.removesuffix("_request"), builder)
    calls = dict(inspect.signature(method).parameters)
    passed = any(one.kind is one.VAR_KEYWORD for one in own.values())
    found = calls if passed else {name: calls.get(name, one) if one.default is one.empty else one for name, one in own.items()}
    return {name: one for name, one in found.items() if name not in ("self", "timeout", "on_progress")}


@pytest.mark.parametrize("name", BUILDERS)
def test_each_argument_by_itself(name: str, stored) -> None:
    builder = BUILDERS[name]
    arguments = arguments_of(builder)
    base = {name: GIVEN.get(name) if one.default is one.empty else one.default for name, one in arguments.items()}
    plain = builder(**base)
    found: dict[str, Any] = {"nothing_given": plain}
    for argument, parameter in arguments.items():
        if argument in NOT_ITS_OWN:
            continue
        sent: dict[str, list[str]] = {}
        refused: dict[str, list[str]] = {}
        for value in [*VALUES, *choices(parameter.annotation)]:
            try:
                changed = difference(plain, builder(**base | {argument: value}))
                sent.setdefault(changed, []).append(short(value))
            except bertscope.InvalidArgument as error:
                said = str(error).replace(f"not {value!r}", "not this")
                refused.setdefault(said, []).append(short(value))
        found[argument] = "\n".join(f"{', '.join(values)} -> {said}" for said, values in (*sent.items(), *refused.items()))
    stored(**found)


def choices(annotation: Any) -> list[str]:
    """The names among which an argument chooses, by its annotation as it is written."""
    kinds = [getattr(bertscope, part.strip(), None) for part in str(annotation).split("|")]
    literals = [getattr(kind, "__value__", kind) for kind in kinds]
    written = [part for part in str(annotation).split("|") if "Literal" in part]
    found = [choice for kind in literals if get_origin(kind) is Literal for choice in get_args(kind)]
    return found + [choice for part in written for choice in get_args(eval(part, {"Literal": Literal}))]


def difference(plain: Any, changed: Any) -> str:
    """What of a request, or of a part of one, is not as it is without the argument."""
    if hasattr(plain, "ListFields"):
        before = {field.name: short(value) for field, value in plain.ListFields()}
        after = {field.name: value for field, value in changed.ListFields()}
        gone = [f"no {name}" for name in before if name not in after]
        own = [field for field in after if before.get(field) != short(after[field])]
        copy = type(changed)(**{name: after[name] for name in own})
        return " ".join([*([short(copy)] if own else []), *gone]) or "as without it"
    return short(changed)
