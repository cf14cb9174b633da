"""The page of a benchmark in a real browser: on phones, on screens and on paper every number stands on one line."""

import pytest
from bertscope_workbench.command.views.benchmark_files import html_page

pytestmark = pytest.mark.slow
pytest.importorskip("playwright.sync_api", reason="drives a browser")

from tests.support import reports  # noqa: E402
from tests.support.browsing import launched_browser  # noqa: E402
from tests.support.reports import read_report as report  # noqa: E402
from tests.support.reports import read_studies as studies  # noqa: E402

BROKEN = """() => [...document.querySelectorAll("td")].filter(cell => {
    const text = document.createRange();
    text.selectNodeContents(cell);
    return new Set([...text.getClientRects()].map(line => Math.round(line.top))).size > 1;
}).map(cell => [cell.className, cell.textContent])"""
"""The cells of more than one line."""


def test_cells_are_whole_and_the_page_is_as_wide_as_the_window() -> None:
    page = html_page(report(reports.model("base"), reports.model("quick", 3.0, kept=0.9), reports.model("slow", 1.01)))
    with launched_browser() as browser:
        for width in (400, 800, 1400):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            tab.set_content(page)
            assert tab.evaluate(BROKEN) == []
            assert tab.evaluate("document.documentElement.scrollWidth") == width
        tab.emulate_media(media="print")
        tab.set_viewport_size({"width": 718, "height": 1000})  # A4 less a centimetre on each side
        for printed in (page, html_page(studies(reports.study("DistilBERT (Sanh 2019a)", 1.9, compression="1.5")))):
            tab.set_content(printed)
            assert [text for kind, text in tab.evaluate(BROKEN) if kind == "number"] == []
            assert tab.evaluate("[...document.querySelectorAll('.wide')].every(each => each.scrollWidth <= each.clientWidth)")
