"""Writes the page of a benchmark as PDF: text as text, the figure as lines, A4 pages, mostly one."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscope import BenchmarkReport, StudyTable

from bertscope_workbench.command.views.benchmark_page import Decision, decision, drawable, quiet
from bertscope_workbench.command.views.benchmark_sheets import Sheet, cells, parts
from bertscope_workbench.plots.theme import FAINT, INK, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = (8.27, 11.69)
"""A4, inches."""
MARGIN = 0.55
TITLE, TEXT, SMALL = 13.0, 9.0, 6.6
"""Points."""
LINE = 1.4
"""The height of a line, of its letters'."""
LETTER = 0.53
"""The mean width of a letter, of its height, with room to spare."""
BOLD = 1.15
"""The width of a bold letter, of that of others."""
GAP = 3
"""Letters between columns."""
PANEL = 3.1
"""The height of the figure, inches."""
WIDTH = PAPER[0] - 2 * MARGIN
HEIGHT = PAPER[1] - 2 * MARGIN


@dataclass(frozen=True)
class Block:
    """A part of a page: its height in inches, and how it is drawn below a height above the paper's lower end."""

    height: float
    draw: Callable[[Figure, float], object]


def pdf_page(measured: BenchmarkReport | StudyTable) -> bytes:
    """Returns the page. A table that is wider than the paper goes on below."""
    import matplotlib
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure

    from bertscope_workbench.plots.figures import TEXT_AS_TEXT
    from bertscope_workbench.plots.glyphs import boxes_unmentioned

    page, file = decision(measured), io.BytesIO()
    with (
        boxes_unmentioned(),
        matplotlib.rc_context(TEXT_AS_TEXT),
        PdfPages(file, metadata={"Title": page.title, "CreationDate": None}) as pages,
    ):
        for blocks in _paged(_blocks(page, measured)):
            figure, top = Figure(figsize=PAPER), PAPER[1] - MARGIN
            for block in blocks:
                block.draw(figure, top)
                top -= block.height
            pages.savefig(figure)
    return file.getvalue()


def _paged(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Yields the blocks of each page."""
    page: list[Block] = []
    for block in blocks:
        if page and sum(each.height for each in page) + block.height > HEIGHT:
            yield page
            page = []
        page.append(block)
    yield page


def _blocks(page: Decision, measured: BenchmarkReport | StudyTable) -> Iterator[Block]:
    yield _text(page.title, TITLE, weight="bold")
    yield _text(page.verdict, TEXT * 1.15, weight="bold")
    for sentence in page.each:
        yield _text(f"\u2022 {sentence}", TEXT)
    for warning in page.warnings:
        yield _text(f"Warning: {warning}", TEXT, color="#9a4a12")
    if isinstance(measured, BenchmarkReport) and drawable(measured):
        yield _picture(measured)
    for sheet in page.sheets:
        yield from map(_table, parts(sheet, lambda part: sum(_widths(part)) * _letter(SMALL) <= WIDTH))
    for note in page.notes:
        yield _text(note, SMALL, color="#5a6a7a")


def _text(text: str, size: float, **more: Any) -> Block:
    lines = textwrap.wrap(shown(text), int(WIDTH / _letter(size) / (BOLD if "weight" in more else 1)))
    look: dict[str, Any] = {"va": "top", "size": size, "linespacing": LINE / 1.2, "color": INK} | more

    def draw(figure: Figure, top: float) -> None:
        figure.text(MARGIN / PAPER[0], top / PAPER[1], "\n".join(lines), **look)

    return Block((len(lines) * LINE + 0.5) * size / 72, draw)


def _picture(report: BenchmarkReport) -> Block:
    from bertscope_workbench.plots.benchmark import plot_benchmark

    def draw(figure: Figure, top: float) -> None:
        # A part of a figure gets its place from a grid's ratios alone.
        heights, widths = [PAPER[1] - top, PANEL, top - PANEL], [MARGIN, WIDTH, MARGIN]
        ends = dict.fromkeys(("left", "bottom", "hspace", "wspace"), 0) | {"right": 1, "top": 1}
        grid = figure.add_gridspec(3, 3, height_ratios=heights, width_ratios=widths, **ends)
        plot_benchmark(quiet(report), ax=figure.add_subplot(grid[1, 1]), title="", font_size=7.5)

    return Block(PANEL + 0.15, draw)


def _widths(sheet: Sheet) -> list[int]:
    """Returns the letters of each column, and of the gap after it."""
    columns = zip(*cells(sheet), strict=True)
    return [max(math.ceil(BOLD * len(head)), *map(len, below)) + GAP for head, *below in columns]


def _table(sheet: Sheet) -> Block:
    from matplotlib.lines import Line2D

    rows, letter, line = cells(sheet), _letter(SMALL), LINE * 1.15 * SMALL / 72

    def draw(figure: Figure, top: float) -> None:
        def write(x: float, row: float, text: str, **look: Any) -> None:
            place = ((MARGIN + x) / PAPER[0], (top - row * line) / PAPER[1])
            figure.text(*place, shown(text), color=INK, **look)

        write(0, 1, sheet.title, size=SMALL + 1, weight="bold")
        edges = [0.0]
        for width in _widths(sheet):
            edges.append(edges[-1] + width * letter)
        for number, row in enumerate(rows):
            below = (top - (number + 2.5) * line) / PAPER[1]
            ends = [MARGIN / PAPER[0], (MARGIN + edges[-1]) / PAPER[0]]
            figure.add_artist(Line2D(ends, [below] * 2, color=FAINT, linewidth=0.4 if number else 1))
            for column, cell in enumerate(row):
                right = rows[0][column].endswith("#")
                x = edges[column + 1] - GAP * letter if right else edges[column]
                weight = "normal" if number else "bold"
                write(x, number + 2.2, cell.removesuffix("#"), ha="right" if right else "left", size=SMALL, weight=weight)

    return Block((len(rows) + 2.6) * line, draw)


def _letter(size: float) -> float:
    """Returns the width of a letter, inches."""
    return LETTER * size / 72
