"""Prints the contexts of units, and the tags that are frequent in them."""

from typing import Any

from bertscope import Contexts, Place, TagCounts, UnitContexts
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import fits, plural, print_heading, printable, table, titled
from bertscope_workbench.command.views.result_tables import result_table

FEW_UNITS = 8
"""So many units are shown each with its places; more, in a row each."""
MOST_ROWS = 30
CONTEXT = 24
"""Characters beside a word."""
KINDS = {"head": "weight", "neuron": "activation", "direction": "value"}


def print_contexts(screen: Console, found: Contexts, counts: TagCounts | None = None) -> None:
    """Prints each unit's places, or a row for each unit where there are many, and the tags of all."""
    print_heading(
        screen, found.provenance.model, plural(found.texts, "text"), plural(len(found), "unit"), truncated=found.truncated_texts
    )
    if found.skipped_pairs:
        screen.print(
            f"left out: {plural(found.skipped_pairs, 'pair')} with a word that has no piece of its own", style="yellow"
        )
    if counts is not None:
        print_tags(screen, counts)
    if len(found) > FEW_UNITS:
        if counts is None:
            print_rows(screen, found)
        return
    for one in found:
        print_unit(screen, one)


def print_unit(screen: Console, one: UnitContexts) -> None:
    """Prints the best places of a unit, and one of each tenth of the words that were drawn."""
    name = KINDS[one.unit.kind]
    heading = f"{one.unit}: {name} {one.mean:.3g} on average over {plural(one.count, 'word')}, deviation {one.deviation:.3g}"
    if one.best and one.unit.kind == "direction" and one.best[0].value == one.best[-1].value == 0:
        screen.print(titled(heading, Text("0 at all of them")))
        return
    rows = [[rank, *_place_cells(place)] for rank, place in enumerate(one.best, start=1)]
    tenths = [(tenth, places[len(places) // 2]) for tenth, places in enumerate(one.tenths, start=1) if places]
    rows += [[f"tenth {tenth}", *_place_cells(place)] for tenth, place in reversed(tenths)]
    content = table(["place", f"{name}#.3f", "word", "partner", "text"], rows)
    screen.print(titled(heading, content), soft_wrap=not fits(screen, content))


def print_rows(screen: Console, found: Contexts) -> None:
    """Prints a row for each of the first units: its mean and its best place."""
    rows = ([str(unit.unit), unit.mean, *_place_cells(unit.best[0] if unit.best else None)] for unit in found[:MOST_ROWS])
    screen.print(table(["unit", "mean#.3f", "largest#.3f", "word", "partner", "where"], rows))
    if len(found) > MOST_ROWS:
        screen.print(f"and {len(found) - MOST_ROWS} more units; --output writes the places of all", style="dim")


def print_tags(screen: Console, counts: TagCounts) -> None:
    """Prints the tag of each unit that chance explains least, of the first units."""
    names = "unit", "of", "tag", "texts", "share", "by_chance", "p_corrected"
    screen.print(result_table(counts.best()[:MOST_ROWS], names))
    note = f"p: Fisher's exact test, corrected for {len(counts)} counts (Holm); of each text one place counts"
    screen.print(Text(note, style="dim"))


def in_context(place: Place) -> Text:
    """Returns a word with what stands around it."""
    text = place.text if isinstance(place.text, str) else place.text[place.span.segment]
    start, end = place.span.start, place.span.end
    before, after = text[max(0, start - CONTEXT) : start], text[end : end + CONTEXT]
    line = printable(("…" if start > CONTEXT else "") + before)
    line.append_text(Text.assemble((printable(text[start:end]).plain, "bold"))).append_text(printable(after))
    if end + CONTEXT < len(text):
        line.append("…")
    return line


def _place_cells(place: Place | None) -> list[Any]:
    return [None] * 4 if place is None else [place.value, place.word, place.partner, in_context(place)]
