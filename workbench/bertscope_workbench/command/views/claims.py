"""Prints claims and what came of them."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table as Rows
from rich.text import Text

from bertscope_workbench.command.views.output import fits, printable, table, titled
from bertscope_workbench.papers.claim import Claim
from bertscope_workbench.papers.kept_results import SHIPS
from bertscope_workbench.papers.published.reproduced import Reproduced
from bertscope_workbench.papers.published.shown import Table, sentences, tables
from bertscope_workbench.papers.run import ClaimsRun
from bertscope_workbench.papers.verdicts import DISAGREE, FAILS, HOLDS, UNKNOWN, JudgedTest, Multiplicity, Verdict, multiplicity
from bertscope_workbench.papers.wording import SIGNS, interval, model_names, shown_number

MAX_ROWS = 30
"""The most rows of a table on the screen; the page has all."""
STYLES: dict[Verdict, str] = {
    HOLDS: "green",
    "reproduced": "green",
    FAILS: "red",
    "differs": "red",
    UNKNOWN: "yellow",
    DISAGREE: "yellow",
}


def print_claims(screen: Console, claims: Sequence[Claim]) -> None:
    """Prints the claims by section, with the names that --only takes."""
    for (section, title), own in groupby(claims, key=lambda claim: (claim.section, claim.section_title)):
        rows = table(["claim", "the finding"], ((claim.name, claim.claim) for claim in own))
        screen.print(titled(f"{section}: {title}", rows))


def print_studies(screen: Console, found: Mapping[str, Sequence[Claim]]) -> None:
    """Prints the shipped studies with their claims, and the data that each needs."""
    rows = ([name, claim.name, _data(claim), claim.title] for name, claims in found.items() for claim in claims)
    screen.print(table(["study", "claim", "data (--data DIR)", "title"], rows))


def _data(claim: Claim) -> str:
    asked = claim.reproduction
    if asked is None:
        return "as the measures say"
    return "ships with bertscope" if asked.shipped else ", ".join(asked.files)


def print_results(screen: Console, run: ClaimsRun) -> None:
    """Prints figures and what became of published ones; a verdict for each claim with tests, and of one model the tests with
    their numbers, too; then what chance would do."""
    names = model_names(run)
    for place, claim in enumerate(run.claims):
        if claim.reproduction is not None:
            _print_reproduction(screen, [found for each in run.models if (found := each.claims[place].reproduced)])
    for section, own in groupby(range(len(run.claims)), key=lambda place: _section(run.claims[place])):
        places = [*own]
        tables = (
            (_numbers(run, places, narrow) for narrow in range(3)) if len(names) == 1 and _has_tests(run, places) else iter(())
        )
        rows = next((each for each in tables if fits(screen, each)), None)
        if rows is None:
            columns = ["claim", *names] if len(names) > 1 else ["claim", "verdict"]
            claims = [[results.claims[place] for results in run.models] for place in places]
            rows = table(columns, ([own[0].claim.title, *(_verdict(one.verdict) for one in own)] for own in claims))
        screen.print(titled(section, rows))
        for name, results in zip(names, run.models, strict=True):
            for place in places:
                judged = results.claims[place]
                if judged.why:
                    of = f"{name}: " if len(names) > 1 else ""
                    line = f"{of}{judged.claim.title}: {judged.verdict}, as {judged.why}"
                    screen.print(printable(line), style="dim", soft_wrap=True)
    for name, results in zip(names, run.models, strict=True):
        verdicts = [claim.verdict for claim in results.claims]
        counts = ", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in SIGNS if verdict in verdicts)
        screen.print(printable(f"{name}, claims by verdict. {counts}"), style="bold", soft_wrap=True)
        chance = multiplicity(results.claims)
        if chance.asked:
            screen.print(printable(chance_line(chance)), soft_wrap=True)
    if run.models and run.models[0].asked.get("data", SHIPS) != SHIPS:
        screen.print(printable(f"data: {run.models[0].asked['data']}; the page says what each test was asked on"))


def _print_reproduction(screen: Console, found: Sequence[Reproduced]) -> None:
    for each in tables(found):
        _print_table(screen, each)
    for one in found:
        for number, line in enumerate(sentences(one)):
            screen.print(printable(line), style="" if number else "bold", soft_wrap=True)
    screen.print()


def _print_table(screen: Console, content: Table) -> None:
    shown = table(content.columns, content.rows[:MAX_ROWS])
    more = len(content.rows) - MAX_ROWS
    if not fits(screen, shown) and content.columns[-1] == "source":
        _print_table(screen, Table(content.caption, content.columns[:-1], [row[:-1] for row in content.rows]))
        return
    screen.print(titled(content.caption + (f" (the first {MAX_ROWS} rows of {MAX_ROWS + more})" if more > 0 else ""), shown))


def chance_line(chance: Multiplicity) -> str:
    """Returns how many tests hold, how many would by chance, and how many still do when corrected."""
    lost = f" (no longer: {'; '.join(chance.lost)})" if chance.lost else ""
    return (
        f"{chance.hold} of {chance.asked} tests hold; {chance.by_chance:.1f} would by chance if the truth lay exactly on every "
        f"threshold; corrected for their number, {chance.corrected} hold{lost}"
    )


def _has_tests(run: ClaimsRun, places: Sequence[int]) -> bool:
    return any(run.claims[place].tests for place in places)


def _section(claim: Claim) -> str:
    return f"{claim.section}: {claim.section_title}"


def _verdict(verdict: Verdict) -> Text:
    return Text(f"{SIGNS[verdict]} {verdict}", style=STYLES.get(verdict, "dim"))


def _numbers(run: ClaimsRun, places: Sequence[int], narrow: int) -> Rows:
    """Returns a row for each claim of a section, with its numbers if it has one test, else followed by a row for each test.
    `narrow` leaves out so many columns that say least."""
    rows: list[list[Text | str]] = []
    for place in places:
        judged = run.models[0].claims[place]
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
