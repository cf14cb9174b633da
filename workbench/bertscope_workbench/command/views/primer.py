"""Prints claims and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.output import fits, printable, table, titled
from bertscope_workbench.primer.claim import Claim
from bertscope_workbench.primer.kept_results import SHIPS
from bertscope_workbench.primer.run import Primer
from bertscope_workbench.primer.verdicts import DISAGREE, FAILS, HOLDS, UNKNOWN, JudgedTest, Multiplicity, Verdict, multiplicity
from bertscope_workbench.primer.wording import SIGNS, interval, model_names, shown_number

STYLES = {HOLDS: "green", FAILS: "red", UNKNOWN: "yellow", DISAGREE: "yellow"}


def print_claims(screen: Console, claims: Sequence[Claim]) -> None:
    """Prints the claims by section, with the names that --only takes."""
    for (section, title), own in groupby(claims, key=lambda claim: (claim.section, claim.section_title)):
        rows = table(["claim", "the finding"], ((printable(claim.name), printable(claim.claim)) for claim in own))
        screen.print(titled(f"{section}: {title}", rows))


def print_primer(screen: Console, primer: Primer) -> None:
    """Prints a verdict for each claim, and of one model the tests with their numbers, too; then what chance would do."""
    names = model_names(primer)
    for section, own in groupby(range(len(primer.claims)), key=lambda place: _section(primer.claims[place])):
        places = [*own]
        tables = (_numbers(primer, places, narrow) for narrow in range(3)) if len(names) == 1 else iter(())
        rows = next((each for each in tables if fits(screen, each)), None)
        if rows is None:
            columns = ["claim", *names] if len(names) > 1 else ["claim", "verdict"]
            rows = table(columns, ([printable(primer.claims[place].title), *_verdicts(primer, place)] for place in places))
        screen.print(titled(section, rows))
        for name, results in zip(names, primer.models, strict=True):
            for place in places:
                judged = results.claims[place]
                if judged.why:
                    of = f"{name}: " if len(names) > 1 else ""
                    line = f"{of}{judged.claim.title}: {judged.verdict}, as {judged.why}"
                    screen.print(printable(line), style="dim", soft_wrap=True)
    for name, results in zip(names, primer.models, strict=True):
        verdicts = [claim.verdict for claim in results.claims]
        counts = ", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in SIGNS if verdict in verdicts)
        screen.print(printable(f"{name}, claims by verdict. {counts}"), style="bold", soft_wrap=True)
        chance = multiplicity(results.claims)
        if chance.asked:
            screen.print(printable(chance_line(chance)), soft_wrap=True)
    if primer.models and primer.models[0].asked.get("data", SHIPS) != SHIPS:
        screen.print(printable(f"data: {primer.models[0].asked['data']}; the page says what each test was asked on"))


def chance_line(chance: Multiplicity) -> str:
    """Returns how many tests hold, how many would by chance, and how many still do when corrected."""
    lost = f" (no longer: {'; '.join(chance.lost)})" if chance.lost else ""
    return (
        f"{chance.hold} of {chance.asked} tests hold; {chance.by_chance:.1f} would by chance if the truth lay exactly on every "
        f"threshold; corrected for their number, {chance.corrected} hold{lost}"
    )


def _section(claim: Claim) -> str:
    return f"{claim.section}: {claim.section_title}"


def _verdicts(primer: Primer, place: int) -> list[Text]:
    return [_verdict(results.claims[place].verdict) for results in primer.models]


def _verdict(verdict: Verdict) -> Text:
    return Text(f"{SIGNS[verdict]} {verdict}", style=STYLES.get(verdict, "dim"))


def _numbers(primer: Primer, places: Sequence[int], narrow: int) -> Table:
    """Returns a row for each claim of a section, with its numbers if it has one test, else followed by a row for each test.
    `narrow` leaves out so many columns that say least."""
    rows: list[list[Text | str]] = []
    for place in places:
        judged = primer.models[0].claims[place]
        title, verdict = printable(judged.claim.title), _verdict(judged.verdict)
        if len(judged.tests) == 1:
            rows.append([title, *_cells(judged.tests[0]), verdict])
            continue
        rows.append([title, "", "", "", "", verdict])
        rows += [[printable(f"  {each.test.name}"), *_cells(each), _verdict(each.verdict)] for each in judged.tests]
    left_out = (4, 2)[:narrow]
    columns = ["claim", "model#", "control#", "difference, 95 %#", "holds#", "verdict"]
    kept = [place for place in range(len(columns)) if place not in left_out]
    return table([columns[place] for place in kept], ([row[place] for place in kept] for row in rows))


def _cells(judged: JudgedTest) -> list[str]:
    """Returns a test's number, the control's, the difference and the threshold; dashes for one that was not asked."""
    test, found = judged.test, judged.measured
    threshold = f"{test.holds} {shown_number(test.threshold, test.unit)}"
    if found is None:
        return ["–", "–", "–", threshold]
    return [shown_number(found.value, test.unit), shown_number(found.control, test.unit), interval(found, test.unit), threshold]
