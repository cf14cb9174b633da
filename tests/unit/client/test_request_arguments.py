"""Every argument of every request, by itself: what is sent of it, and which values are refused, and how."""

import inspect
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args, get_origin

import bertscope
import pytest
from bertscope.rpc import contract

from tests.support.sent_requests import needed, sent
from tests.support.stored_outputs import short

NOT_ITS_OWN = {"interventions", "reference_texts", "model", "start_from"}
VALUES: list[Any] = [None, True, 0, 7, 2**32, -1, 0.5, math.nan, "x", "\ud800", [], ["x", 3], [1, 2], {1: [0]}, {1: []}]


METHODS = [re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower() for method in contract.METHODS]
BUILDERS: dict[str, Callable[..., Any]] = {
    name: partial(sent, name)
    for name in (*METHODS, "find_neurons", "train_regression_probe")
    if hasattr(bertscope.Client, name)
}
OBJECTIVES = ("ClozePrompts", "LabelledQuestions", "MaskedLmLoss", "MinimalPairs", "SimilarTexts")
BUILDERS |= {name: getattr(bertscope, name) for name in (*OBJECTIVES, "Bootstrap", "Greedy", "MapView", "Retries")}
PARTS = ("half", "keep_layers", "magnitude", "remove_feed_forward", "scale", "reduce_vocabulary", "weight_only", "zero")
BUILDERS |= {name: getattr(bertscope, name) for name in (*PARTS, "Fact", "Answer", "SimilarTo")}
GIVEN: dict[str, Any] = {"layer": 1, "heads": "all", "factor": 0.5, "share": 0.5, "layers": 0, "texts": "a"}
GIVEN |= {"prompts": [], "questions": [], "pairs": [], "subject": "a", "objects": "b", "answer": "a", "other": "b"}


def arguments_of(name: str) -> dict[str, inspect.Parameter]:
    """The arguments of a method of the client, or of what makes a part of a request."""
    found = inspect.signature(getattr(bertscope.Client, name, None) or BUILDERS[name]).parameters
    return {
        name: one for name, one in found.items() if name not in ("self", "timeout", "on_progress", "on_rejected", "on_found")
    }


@pytest.mark.parametrize("name", BUILDERS)
def test_each_argument_by_itself(name: str, stored) -> None:
    builder, arguments = BUILDERS[name], arguments_of(name)
    base = {name: GIVEN.get(name) if one.default is one.empty else one.default for name, one in arguments.items()}
    base |= needed(name) if name in METHODS or hasattr(bertscope.Client, name) else {}
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
