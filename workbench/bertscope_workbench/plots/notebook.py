"""Shows in a notebook what a table can't: attention maps as a page, traces, words and readings of layers in colour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bertscope import AttentionMaps, LensText, LensTexts, Trace, WordAttribution, WordAttributions

from bertscope_workbench.plots.attention_page import attention_page
from bertscope_workbench.plots.lens_html import lens_html
from bertscope_workbench.plots.trace_html import trace_html
from bertscope_workbench.plots.words_html import words_html

MAX_WEIGHTS = 300_000
"""The most weights of maps that a notebook draws by itself: a page with more takes megabytes in the notebook's file."""


def register(shell: Any) -> None:
    """Lets IPython, an `InteractiveShell`, show results of these types so, in place of a table or of text."""
    formatter = shell.display_formatter.formatters["text/html"]
    for kind, shown in RENDERERS.items():
        formatter.for_type(kind, shown)


def maps_html(maps: AttentionMaps) -> str | None:
    """Returns the page of all maps; None, which shows text, for very many weights: `attention_page` shows some of them."""
    return None if maps.attention.size > MAX_WEIGHTS else attention_page(maps)._repr_html_()


RENDERERS: dict[type, Callable[[Any], str | None]] = {
    AttentionMaps: maps_html,
    LensText: lambda found: lens_html([found]),
    LensTexts: lens_html,
    Trace: trace_html,
    WordAttribution: lambda found: words_html([found]),
    WordAttributions: words_html,
}
