"""Turns a table of claims into a document of JSON and into rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bertscope import __version__
from bertscope.values.models import short_name

from bertscope_workbench.primer.claim import Claim
from bertscope_workbench.primer.kept_results import result_document
from bertscope_workbench.primer.pictures_data import number
from bertscope_workbench.primer.run import ModelResults, Primer
from bertscope_workbench.primer.verdicts import JudgedTest, multiplicity
from bertscope_workbench.references import Method, method_of_commands, methods
from bertscope_workbench.studies.inquiry import model_facts

COLUMNS = (
    "model", "step", "section", "claim", "title", "learned", "claim_verdict", "test", "verdict", "value", "control",
    "difference", "low", "high", "p_value", "threshold", "holds", "unit", "items", "measured", "control_is", "data",
    "why", "seconds",
)  # fmt: skip


def primer_document(primer: Primer) -> dict[str, Any]:
    """Returns everything as JSON has it: the models, and each claim with its tests and what came of them for each model."""
    return {
        "primer": __version__,
        "method": _method(primer).document(),
        "models": [_model(each) for each in primer.models],
        "claims": [_claim(primer, place, claim) for place, claim in enumerate(primer.claims)],
    }


def primer_rows(primer: Primer) -> list[list[Any]]:
    """Returns a row for each test and model, in the order of `COLUMNS`; NaN and None where there is no number."""
    return [
        _row(results, judged.claim, judged.verdict, test)
        for results in primer.models
        for judged in results.claims
        for test in judged.tests
    ]


def papers(primer: Primer) -> tuple[str, ...]:
    """Returns the keys of the papers of the primer, then of the commands that ask its claims alone."""
    lines = (command for claim in primer.claims for test in claim.tests for command in test.commands)
    found = method_of_commands(lines, "primer")
    return tuple(dict.fromkeys(paper for method in found for paper in method.papers))


def _method(primer: Primer) -> Method:
    return Method(methods()["primer"][""].number, papers(primer))


def _model(results: ModelResults) -> dict[str, Any]:
    found = multiplicity(results.claims)
    return {
        "name": short_name(results.model),
        "facts": model_facts(results.model),
        "weights": results.model.weights_digest,
        "runtime": results.model.runtime,
        "precision": results.model.precision,
        "step": results.step,
        "asked": dict(results.asked),
        "by_chance": {**vars(found), "lost": [*found.lost]},
    }


def _claim(primer: Primer, place: int, claim: Claim) -> dict[str, Any]:
    judged = [results.claims[place] for results in primer.models]
    return {
        **{name: getattr(claim, name) for name in ("name", "section", "section_title", "title", "claim", "explained", "paper")},
        "learned": claim.learned,
        "rule": claim.verdict,
        "verdicts": [each.verdict for each in judged],
        "published": [dict(vars(each)) for each in claim.published],
        "tests": [
            {
                **{
                    name: getattr(test, name)
                    for name in ("name", "measured", "unit", "control", "holds", "threshold", "reason")
                },
                "commands": [*test.commands],
                "results": [result_document(each.tests[number_of]) for each in judged],
            }
            for number_of, test in enumerate(claim.tests)
        ],
    }


def _row(results: ModelResults, claim: Claim, verdict: str, judged: JudgedTest) -> list[Any]:
    test, found = judged.test, judged.measured
    numbers: Sequence[float | None] = (
        [math.nan] * 5 if found is None else [found.value, found.control, found.difference, found.low, found.high]
    )
    return [
        short_name(results.model),
        math.nan if results.step is None else results.step,
        claim.section,
        claim.name,
        claim.title,
        claim.learned,
        verdict,
        test.name,
        judged.verdict,
        *(math.nan if each is None else number(each) for each in numbers),
        judged.p_value,
        test.threshold,
        test.holds,
        test.unit,
        0 if found is None else found.items,
        test.measured,
        test.control,
        "" if found is None else found.data,
        judged.why,
        round(judged.seconds, 2),
    ]
