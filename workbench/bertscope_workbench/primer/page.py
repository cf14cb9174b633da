"""Writes the table of claims as one HTML page that loads nothing: for a reader who does not know BERT, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bertscope_workbench.primer.claim import Claim
from bertscope_workbench.primer.pictures import picture_svg
from bertscope_workbench.primer.pictures_data import Picture, curves
from bertscope_workbench.primer.run import Primer
from bertscope_workbench.primer.verdicts import DISAGREE, FAILS, HOLDS, NOT_ASKED, UNKNOWN, JudgedTest, multiplicity
from bertscope_workbench.primer.wording import SIGNS, interval, model_names, shown_number
from bertscope_workbench.studies.inquiry import model_facts
from bertscope_workbench.studies.page import printable

MEANINGS = {
    HOLDS: "the 95 % interval lies wholly on the claimed side of the threshold, in every test; of several answers to one "
    "question, in each that can tell",
    FAILS: "the interval of a test lies wholly on the other side",
    UNKNOWN: "an interval crosses the threshold, or the items are too few",
    DISAGREE: "several tests of one claim, and some say yes and some no",
    NOT_ASKED: "the data, the language or a part of the model is missing; the claim says which",
}


def primer_page(primer: Primer, *, title: str = "The Primer, executed") -> str:
    """Returns the page. Pictures are drawn with matplotlib."""
    pages = Environment(
        loader=PackageLoader("bertscope_workbench", "primer"),
        autoescape=True,
        finalize=printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.globals.update(shown_number=shown_number, interval=interval, sign=SIGNS.__getitem__, commands=commands)
    sections: dict[tuple[str, str], list[int]] = {}
    for place, claim in enumerate(primer.claims):
        sections.setdefault((claim.section, claim.section_title), []).append(place)
    return pages.get_template("page.html").render(
        title=title,
        primer=primer,
        names=model_names(primer),
        facts=[model_facts(each.model) for each in primer.models],
        sections=sections,
        counts=[_counts(primer, index) for index in range(len(primer.models))],
        chance=[multiplicity(each.claims) for each in primer.models],
        meanings=MEANINGS,
        pictures=[_pictures(primer, place, claim) for place, claim in enumerate(primer.claims)],
    )


def commands(claim: Claim, model: str) -> list[str]:
    """Returns the commands that ask a claim alone."""
    own = [command.replace("{model}", model) for test in claim.tests for command in test.commands]
    return [f"bertscope primer --only {claim.name} --model {model}", *dict.fromkeys(own)]


def _counts(primer: Primer, model: int) -> dict[str, int]:
    verdicts = [each.verdict for each in primer.models[model].claims]
    return {verdict: verdicts.count(verdict) for verdict in SIGNS}


def _pictures(primer: Primer, place: int, claim: Claim) -> list[Markup]:
    """Returns the picture of each test: over the steps of a film, else that of each model which has one, the first test's of
    its kind."""
    found = []
    for number, test in enumerate(claim.tests):
        results = [each.claims[place].tests[number] for each in primer.models]
        if len(results) > 1 and all(each.step is not None for each in primer.models):
            shown = [film(test.unit, [each.step or 0.0 for each in primer.models], results)]
        else:
            shown = [each.measured.picture for each in results if each.measured and each.measured.picture][:1]
        found += [Markup(picture_svg(each, f"{claim.name}-{number}")) for each in shown]  # noqa: S704 - matplotlib escapes
    return found


def film(unit: str, steps: Sequence[float], results: Sequence[JudgedTest]) -> Picture:
    """Returns a test's numbers over the training steps of a model's checkpoints, beside the control's."""

    def line(name: str) -> list[float]:
        values: list[Any] = [None if each.measured is None else getattr(each.measured, name) for each in results]
        return [math.nan if value is None else value for value in values]

    lines = {"the model": line("value"), "the control": line("control"), "difference": line("difference")}
    known = {name: values for name, values in lines.items() if any(map(math.isfinite, values))}
    return curves("training step", steps, unit, known if "the control" in known else {"the model": line("value")})
