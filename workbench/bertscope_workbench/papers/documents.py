"""Turns a table of claims into a document of JSON and into rows of a table."""

import math
from typing import Any

from bertscope import __version__
from bertscope.values.documents import document_of, fields_of, finite
from bertscope.values.models import short_name

from bertscope_workbench.papers.claim import Claim
from bertscope_workbench.papers.kept_results import result_document
from bertscope_workbench.papers.pictures_data import number
from bertscope_workbench.papers.published.reproduced import Reproduced
from bertscope_workbench.papers.run import ClaimsRun, ModelResults
from bertscope_workbench.papers.verdicts import JudgedClaim, JudgedTest, multiplicity
from bertscope_workbench.papers.wording import model_facts
from bertscope_workbench.references import Method, method_of, method_of_commands, methods

COLUMNS = (
    "model", "step", "section", "claim", "title", "learned", "claim_verdict", "test", "verdict", "value", "control",
    "difference", "low", "high", "p_value", "threshold", "holds", "unit", "items", "measured", "control_is", "data",
    "why", "seconds",
)  # fmt: skip


def claims_document(run: ClaimsRun) -> dict[str, Any]:
    """Returns everything as JSON has it: the models, and each claim with its tests and what came of them for each model."""
    return {
        "primer": __version__,
        "name": run.name,
        "method": _method(run).document(),
        "models": [_model(each) for each in run.models],
        "claims": [_claim(run, place, claim) for place, claim in enumerate(run.claims)],
    }


def claims_rows(run: ClaimsRun) -> list[list[Any]]:
    """Returns a row for each test and model, and for each figure of a reproduction, in the order of `COLUMNS`; NaN and None
    where there is no number."""
    return [
        row
        for results in run.models
        for judged in results.claims
        for row in (
            *(_row(results, judged, test) for test in judged.tests),
            *_figure_rows(results, judged),
        )
    ]


def papers(run: ClaimsRun) -> tuple[str, ...]:
    """Returns the keys of the papers of the run, then of the commands that ask its claims alone."""
    lines = (command for claim in run.claims for test in claim.tests for command in test.commands)
    found = [_own_method(run.name), *method_of_commands(lines)]
    return tuple(dict.fromkeys(paper for method in found for paper in method.papers))


def _method(run: ClaimsRun) -> Method:
    return Method(_own_method(run.name).number, papers(run))


def _own_method(name: str) -> Method:
    """Returns what the survey computes, or a study of this name."""
    return method_of("study", [name]) or methods()["study"][""] if name != "primer" else methods()["primer"][""]


def _model(results: ModelResults) -> dict[str, Any]:
    return {
        "name": short_name(results.model),
        "facts": model_facts(results.model),
        "weights": results.model.weights_digest,
        **fields_of(results.model, "runtime", "precision"),
        **fields_of(results, "step", "asked"),
        "by_chance": document_of(multiplicity(results.claims)),
    }


def _claim(run: ClaimsRun, place: int, claim: Claim) -> dict[str, Any]:
    judged = [results.claims[place] for results in run.models]
    of_test = "name", "measured", "unit", "control", "holds", "threshold", "reason", "commands"
    tests = [
        {**fields_of(test, *of_test), "results": [result_document(each.tests[number_of]) for each in judged]}
        for number_of, test in enumerate(claim.tests)
    ]
    return {
        **fields_of(claim, "name", "section", "section_title", "title", "claim", "explained", "paper", "learned"),
        "rule": claim.verdict,
        "verdicts": [each.verdict for each in judged],
        "published": document_of(claim.published),
        "tests": tests,
        "found": claim.found,
        "reproduction": [_reproduced(each.reproduced) for each in judged if each.reproduced is not None],
    }


def _reproduced(found: Reproduced) -> dict[str, Any]:
    """Returns the figures of a reproduction of one model: all of them, published ones beside the model's, and the differences
    from the baseline."""
    published = [{**document_of(each.published), "here": each.value, "verdict": each.verdict} for each in found.compared]
    return {
        "model": short_name(found.model),
        **fields_of(found, "verdict", "why", "asked"),
        "data": found.questions.read.files,
        "skipped": [*found.questions.read.skipped.lines(), *found.skipped.lines()],
        "figures": finite(document_of(found.figures)),
        "published": finite(published),
        "baseline": found.baseline,
        "differences": finite(document_of(found.differences)),
        "seconds": round(found.seconds, 2),
    }


def _figure_rows(results: ModelResults, judged: JudgedClaim) -> list[list[Any]]:
    found = judged.reproduced
    if found is None:
        return []
    published = {(each.published.metric, each.published.group): each for each in found.compared if each.settled}
    rows = []
    for figure in found.figures:
        beside = published.get((figure.metric, figure.group))
        value, there = figure.value, math.nan if beside is None else beside.published.value
        rows.append([
            *_about(results, judged), ", ".join(filter(None, (figure.metric, figure.group))),
            "" if beside is None else beside.verdict, value, there, value - there, figure.low - there, figure.high - there,
            math.nan, math.nan if beside is None else beside.published.tolerance, "", "share", figure.items, figure.metric,
            "as published", "; ".join(found.questions.read.files), found.why, round(found.seconds, 2),
        ])  # fmt: skip
    return rows


def _row(results: ModelResults, claim: JudgedClaim, judged: JudgedTest) -> list[Any]:
    test, found = judged.test, judged.measured
    names = "value", "control", "difference", "low", "high"
    numbers = [None if found is None else getattr(found, name) for name in names]
    return [
        *_about(results, claim), test.name, judged.verdict, *(math.nan if each is None else number(each) for each in numbers),
        judged.p_value, test.threshold, test.holds, test.unit, 0 if found is None else found.items, test.measured,
        test.control, "" if found is None else found.data, judged.why, round(judged.seconds, 2),
    ]  # fmt: skip


def _about(results: ModelResults, judged: JudgedClaim) -> list[Any]:
    """Returns the first columns of a row: the model, its step, the claim and what became of it."""
    claim, step = judged.claim, math.nan if results.step is None else results.step
    about = claim.section, claim.name, claim.title, claim.learned
    return [short_name(results.model), step, *about, judged.verdict]
