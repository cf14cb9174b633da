"""Names of scorings on the command line."""

from typing import Literal, get_args

from bertscope import Scoring

Name = Literal["within-word", "original", "whole-word"]
"""The names of `Scoring`, written as options are."""
SCORINGS: dict[str, Scoring] = {name.replace("_", "-"): name for name in get_args(Scoring)}


def scoring_of(name: Name | None) -> Scoring:
    """Returns the scoring of a name; within words for None."""
    return SCORINGS[name or "within-word"]
