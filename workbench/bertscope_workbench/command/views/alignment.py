"""Prints the linked words of sentences and their translations."""

from dataclasses import asdict
from typing import Any

from bertscope import AlignedWords, AlignmentScores, WordAlignment
from bertscope.questions.representations.alignment import LINK_COLUMNS
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import percent, plural, printable, table, titled

MAX_ROWS = 40
"""The most rows of links that are printed."""


def print_alignments(screen: Console, found: AlignedWords) -> None:
    """Prints a row for each link of the first pairs, and the words that have none."""
    links = sum(len(one.links) for one in found)
    first = found[0]
    heading = f"{plural(len(found), 'pair')}, {plural(links, 'link')}, layer {first.layer}, {first.method}, "
    screen.print(Text(heading, style="bold").append_text(printable(first.provenance.model)))
    result = table(["pair#", "source", "target", "places", "cosine#"])
    drawn = 0
    for one in found:
        if result.row_count + len(one.links) > MAX_ROWS and drawn:
            break
        _add_rows(result, one)
        drawn += 1
    screen.print(titled("words that are linked; pairs and places count from 0", result))
    if drawn < len(found):
        screen.print(f"not shown: {plural(len(found) - drawn, 'pair')} (--output has all)", style="dim")


def print_scores(screen: Console, scores: AlignmentScores) -> None:
    """Prints how links agree with those that people made."""
    result = table(["links#", "sure#", "precision#", "recall#", "F1#", "error rate#"])
    rates = [percent(rate) for rate in (scores.precision, scores.recall, scores.f1, scores.error_rate)]
    result.add_row(str(scores.found), str(scores.sure), *rates)
    screen.print(titled(f"beside the links that people made, {plural(scores.pairs, 'pair')}", result))


def document(found: AlignedWords, scores: AlignmentScores | None) -> dict[str, Any]:
    """Returns alignments in JSON types; "scores" is null without gold alignments."""
    names = LINK_COLUMNS[1:]
    return {
        "provenance": asdict(found[0].provenance),
        "layer": found[0].layer,
        "method": found[0].method,
        "pairs": [
            {
                "index": one.index,
                "source_words": one.source_words,
                "target_words": one.target_words,
                "pharaoh": one.pharaoh,
                "links": [dict(zip(names, row[1:], strict=True)) for row in one.rows()],
            }
            for one in found
        ],
        "scores": None
        if scores is None
        else asdict(scores) | {name: getattr(scores, name) for name in ("precision", "recall", "f1", "error_rate")},
    }


def _add_rows(result: Any, one: WordAlignment) -> None:
    number = str(one.index)
    for _, source, target, source_word, target_word, cosine in one.rows():
        result.add_row(number, printable(source_word), printable(target_word), f"{source}-{target}", f"{cosine:.2f}")
        number = ""
    sides = ((one.source_words, {link.source for link in one.links}), (one.target_words, {link.target for link in one.links}))
    alone = [[word for place, word in enumerate(words) if place not in linked] for words, linked in sides]
    if any(alone):
        cells = [Text("no link: ", style="dim").append_text(printable(" ".join(words))) if words else "" for words in alone]
        result.add_row(number, *cells, "", "")
