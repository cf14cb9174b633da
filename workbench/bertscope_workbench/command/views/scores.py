"""Formats scores of texts as tables and as JSON."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from bertscope import ScoredText, ScoredTexts
from bertscope.questions.scores.texts import Level
from bertscope.values.documents import fields_of
from rich.console import Console
from rich.table import Table

from bertscope_workbench.command.views.output import plural, printable, table
from bertscope_workbench.plots.theme import shortened

FULL_BAR_BITS = 20.0
"""The surprisal of a full bar, bits: that of a word whose probability is one in a million."""
MAX_TEXT = 90
"""The most characters of a text in a table of texts."""


def document(found: ScoredTexts) -> dict[str, Any]:
    """Returns the scores in JSON types; the provenance, which they share, once."""
    shared = "provenance", "scoring"
    own = [field.name for field in dataclasses.fields(ScoredText) if field.name not in shared]
    of_word = "text", "start", "end", "segment", "log_probability", "surprisal_bits"
    results = [
        {**fields_of(scored, *own, "pseudo_perplexity"), "words": [fields_of(word, *of_word) for word in scored.words]}
        for scored in found
    ]
    how = fields_of(found[0], *shared) if found else dict.fromkeys(shared)
    return how | fields_of(found, "log_likelihood", "scored_pieces", "pseudo_perplexity") | {"results": results}


def print_scores(screen: Console, found: ScoredTexts, level: Level) -> None:
    """Prints a table of the texts, or of the words or pieces of each, and the score of all together."""
    if level == "text":
        _print_texts(screen, found)
    else:
        for scored in found:
            screen.print(printable(_text_of(scored)), style="bold", soft_wrap=True)
            screen.print(_words(scored) if level == "word" else _pieces(scored))
            screen.print(_line(scored))
            screen.print()
    if len(found) > 1:
        screen.print(
            f"{plural(len(found), 'text')}, {plural(found.scored_pieces, 'piece')}: log-likelihood {found.log_likelihood:.2f}, "
            f"pseudo-perplexity {found.pseudo_perplexity:.3f}"
        )
    cut = sum(scored.truncated_tokens > 0 for scored in found)
    if cut:
        screen.print(f"{plural(cut, 'text')} were cut", style="yellow")
    if found:
        screen.print(f"scoring: {found[0].scoring.replace('_', '-')}, {found[0].provenance.model}", style="dim")


def _print_texts(screen: Console, found: Sequence[ScoredText]) -> None:
    rows = (
        [one.log_likelihood, one.scored_pieces, one.pseudo_perplexity, shortened(_text_of(one), MAX_TEXT, "...")]
        for one in found
    )
    screen.print(table(["log-likelihood#.4f", "pieces#", "pseudo-perplexity#.3f", "text"], rows))


def _words(scored: ScoredText) -> Table:
    rows = (
        [word.text, word.surprisal_bits, word.surprisal_bits / FULL_BAR_BITS, " ".join(pieces) if pieces[1:] else ""]
        for word in scored.words
        for pieces in [[piece.text for piece in word.pieces]]
    )
    return table(["word", "surprisal, bits#.2f", "#bar", "pieces"], rows)


def _pieces(scored: ScoredText) -> Table:
    rows = ([one.text, one.log_probability, one.surprisal / FULL_BAR_BITS] for one in scored.pieces)
    return table(["piece", "log-probability#.4f", "#bar"], rows)


def _line(scored: ScoredText) -> str:
    return (
        f"log-likelihood {scored.log_likelihood:.4f}, {plural(scored.scored_pieces, 'piece')}, "
        f"pseudo-perplexity {scored.pseudo_perplexity:.3f}"
    )


def _text_of(scored: ScoredText) -> str:
    return scored.text if isinstance(scored.text, str) else " / ".join(scored.text)
