"""Writes the table of claims as one HTML page that loads nothing: for a reader who does not know BERT, light or dark."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from bertscope.values.display import record
from markupsafe import Markup

from bertscope_workbench.papers.claim import Claim
from bertscope_workbench.papers.documents import papers
from bertscope_workbench.papers.pictures import figure_svg, picture_svg
from bertscope_workbench.papers.pictures_data import Picture, curves
from bertscope_workbench.papers.published.drawn import plot_reproduction
from bertscope_workbench.papers.published.reproduced import Reproduced, ReproductionVerdict
from bertscope_workbench.papers.published.shown import sentences, tables
from bertscope_workbench.papers.run import ClaimsRun
from bertscope_workbench.papers.templates import page_templates
from bertscope_workbench.papers.verdicts import DISAGREE, FAILS, HOLDS, NOT_ASKED, UNKNOWN, JudgedTest, Verdict, multiplicity
from bertscope_workbench.papers.wording import SIGNS, interval, model_facts, model_names, shown_chance, shown_number
from bertscope_workbench.references import papers_as

MEANINGS: dict[Verdict, str] = {
    HOLDS: "the 95 % interval lies wholly on the claimed side of the threshold, in every test of the claim",
    FAILS: "the interval of a test lies wholly on the other side; of several answers to one question, that of every one",
    UNKNOWN: "an interval crosses the threshold, or the items are too few, in one test at least",
    DISAGREE: "several answers to one question, and some say yes and some no",
    "reproduced": "every figure that was published of these weights is within its tolerance",
    "differs": "a figure that was published of these weights is not",
    "nothing to compare": "no figure was published of these weights",
    NOT_ASKED: "the data, the language or a part of the model is missing; the claim says which",
}


def claims_page(run: ClaimsRun, *, dark: bool = False) -> str:
    """Returns the page, light or dark as the reader's system prefers, or always `dark`. Pictures are drawn with matplotlib."""
    pages = page_templates("papers")
    pages.globals.update(
        shown_number=shown_number, shown_chance=shown_chance, interval=interval, sign=SIGNS.__getitem__, commands=commands
    )
    sections: dict[tuple[str, str], list[int]] = {}
    for place, claim in enumerate(run.claims):
        sections.setdefault((claim.section, claim.section_title), []).append(place)
    reproduced = [_reproduced(run, place) for place in range(len(run.claims))]
    return pages.get_template("page.html").render(
        dark=dark,
        sentences=sentences,
        reproduced=reproduced,
        tables_of=[tables(each) for each in reproduced],
        shown_verdicts=_verdicts(run),
        run=run,
        names=model_names(run),
        facts=[f"{model_facts(each.model)}; {settings(each.asked)}" for each in run.models],
        sections=sections,
        counts=[_counts(run, index) for index in range(len(run.models))],
        chance=[multiplicity(each.claims) for each in run.models],
        meanings=MEANINGS,
        papers=papers_as(papers(run), "bibtex"),
        pictures=[_pictures(run, place, claim) for place, claim in enumerate(run.claims)],
    )


def settings(asked: Mapping[str, str]) -> str:
    """Returns the settings of a run in words: languages, data, and what is not as usual."""
    others = ("against", "fine_tuned")
    limit = "" if asked["limit"] == "None" else f", the first {asked['limit']} items of each file or set that has a limit"
    more = "".join(f", {name.replace('_', '-')} {asked[name][:19]}" for name in others if asked[name] != "none")
    return f"asked in {asked['languages']}; data: {asked['data']}{limit}{more}"


def commands(name: str, claim: Claim, model: str) -> list[str]:
    """Returns the commands that ask a claim of the survey, or of a study of this name, alone."""
    own = [command.replace("{model}", model) for test in claim.tests for command in test.commands]
    whole = "primer" if name == "primer" else f"study {name}"
    return [f"bertscope {whole} --only {claim.name} --model {model}", *dict.fromkeys(own)]


def _reproduced(run: ClaimsRun, place: int) -> list[Reproduced]:
    """Returns the figures of the models' reproductions of a claim; none if it has none."""
    return [found for each in run.models if (found := each.claims[place].reproduced) is not None]


def _verdicts(run: ClaimsRun) -> set[Verdict]:
    """Returns the verdicts that the claims of this page can have: of tests, of reproductions, or both."""
    of_figures: set[Verdict] = {*get_args(ReproductionVerdict)}
    of_tests: set[Verdict] = {*MEANINGS} - of_figures | {NOT_ASKED}
    tested = of_tests if any(claim.tests for claim in run.claims) else set()
    return tested | (of_figures if any(claim.reproduction for claim in run.claims) else set())


def _counts(run: ClaimsRun, model: int) -> dict[str, int]:
    verdicts = [each.verdict for each in run.models[model].claims]
    return {verdict: verdicts.count(verdict) for verdict in SIGNS}


@record
class Drawn:
    """A picture of the page."""

    svg: Markup
    caption: str


def _pictures(run: ClaimsRun, place: int, claim: Claim) -> list[Drawn]:
    """Returns the picture of each test, of the one that the claim names first: over the steps of a film, else that of the first
    model which has one; none twice."""
    found: list[Drawn] = []
    before: list[Picture] = []
    names = model_names(run)
    for number, test in sorted(enumerate(claim.tests), key=lambda each: each[1].name != claim.figure):
        results = [each.claims[place].tests[number] for each in run.models]
        of_film = len(results) > 1 and all(each.step is not None for each in run.models)
        shown = [(name, each.measured.picture) for name, each in zip(names, results, strict=True) if each.measured]
        if of_film:
            shown = [("", film(test.unit, [each.step or 0.0 for each in run.models], results))]
        for name, picture in shown:
            if picture is not None and picture not in before:
                before.append(picture)
                svg = Markup(picture_svg(picture, f"{claim.name}-{number}"))  # noqa: S704 - matplotlib escapes texts
                of = f"{name}, " if len(names) > 1 and name else ""
                found.append(Drawn(svg, f"{of}test {test.name}: {test.measured}"))
                break
    reproduced = _reproduced(run, place)
    if any(each.asked for each in reproduced):
        svg = Markup(figure_svg(plot_reproduction(reproduced), f"{claim.name}-figures"))  # noqa: S704 - matplotlib escapes texts
        found.append(Drawn(svg, f"{claim.title}, with 95 % intervals"))
    return found


def film(unit: str, steps: Sequence[float], results: Sequence[JudgedTest]) -> Picture:
    """Returns a test's numbers over the training steps of a model's checkpoints, beside the control's."""

    def line(name: str) -> list[float]:
        values: list[Any] = [None if each.measured is None else getattr(each.measured, name) for each in results]
        return [math.nan if value is None else value for value in values]

    lines = {"the model": line("value"), "the control": line("control"), "difference": line("difference")}
    known = {name: values for name, values in lines.items() if any(map(math.isfinite, values))}
    return curves("training step", steps, unit, known if "the control" in known else {"the model": line("value")})
