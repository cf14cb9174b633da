"""Prints claims and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.output import fits, printable, table, titled
from bertscope_workbench.primer.claim import Claim
from bertscope_workbench.primer.run import Primer
from bertscope_workbench.primer.verdicts import DISAGREE, FAILS, HOLDS, UNKNOWN, JudgedClaim, multiplicity
from bertscope_workbench.primer.wording import SIGNS, interval, model_names, shown_number

STYLES = {HOLDS: "green", FAILS: "red", UNKNOWN: "yellow", DISAGREE: "yellow"}


def print_claims(screen: Console, claims: Sequence[Claim]) -> None:
    """Prints the claims by section, with the names that --only takes."""
    for (section, title), own in groupby(claims, key=lambda claim: (claim.section, claim.section_title)):
        rows = table(["claim", "the finding"], ((printable(claim.name), printable(claim.claim)) for claim in own))
        screen.print(titled(f"{section} {title}", rows))


def print_primer(screen: Console, primer: Primer) -> None:
    """Prints a verdict for each claim, and of one model the numbers, too; then what chance would do."""
    names = model_names(primer)
    for (section, title), own in groupby(range(len(primer.claims)), key=lambda place: _section(primer.claims[place])):
        places = [*own]
        rows = _numbers(primer, places) if len(names) == 1 else None
        if rows is None or not fits(screen, rows):
            columns = ["claim", *names] if len(names) > 1 else ["claim", "verdict"]
            rows = table(columns, ([printable(primer.claims[place].title), *_verdicts(primer, place)] for place in places))
        screen.print(titled(f"{section} {title}", rows))
    for name, results in zip(names, primer.models, strict=True):
        verdicts = [claim.verdict for claim in results.claims]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in SIGNS if verdict in verdicts)
        screen.print(printable(f"{name}: {counts}"), style="bold", soft_wrap=True)
        chance = multiplicity(results.claims)
        screen.print(
            printable(
                f"{chance.hold} of {chance.asked} tests hold; {chance.by_chance:.1f} would by chance if the truth lay exactly "
                f"on every threshold; corrected for their number, {chance.corrected} hold"
                + (f" (no longer: {'; '.join(chance.lost)})" if chance.lost else "")
            ),
            soft_wrap=True,
        )


def _section(claim: Claim) -> tuple[str, str]:
    return claim.section, claim.section_title


def _verdicts(primer: Primer, place: int) -> list[Text]:
    return [_verdict(results.claims[place]) for results in primer.models]


def _verdict(judged: JudgedClaim) -> Text:
    return Text(f"{SIGNS[judged.verdict]} {judged.verdict}", style=STYLES.get(judged.verdict, "dim"))


def _numbers(primer: Primer, places: Sequence[int]) -> Table:
    """Returns a row for each test of a section."""
    rows = []
    for place in places:
        judged = primer.models[0].claims[place]
        for number, each in enumerate(judged.tests):
            title = printable(judged.claim.title if number == 0 else f"  {each.test.name}")
            verdict = _verdict(judged) if number == 0 else Text()
            if each.measured is None:
                rows.append([title, "–", "–", "–", verdict])
                continue
            unit, found = each.test.unit, each.measured
            rows.append(
                [title, shown_number(found.value, unit), shown_number(found.control, unit), interval(found, unit), verdict]
            )
    return table(["claim", "model#", "control#", "difference, 95 %#", "verdict"], rows)
