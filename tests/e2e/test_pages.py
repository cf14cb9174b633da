"""Pages that are files, of attention and of a benchmark, in a real browser: on screens of any width, and on paper."""

import dataclasses
from collections.abc import Iterator

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope_workbench.command.views.benchmark_files import html_page

pytestmark = pytest.mark.slow
pytest.importorskip("playwright.sync_api", reason="drives a browser")

from playwright.sync_api import Browser  # noqa: E402

from tests.support import reports  # noqa: E402
from tests.support.browsing import Watched, launched_browser  # noqa: E402

HOST = "127.0.0.1"
PROVENANCE = bertscope.Provenance("models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {}, "zero_based")
WORDS = ("[CLS]", "the", "<b>cat</b>", "sat", "[SEP]")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_browser() as running:
        yield running


def maps(words: tuple[str, ...]) -> bertscope.AttentionMaps:
    tokens = tuple(
        bertscope.Token(word, index, index, index + 1, word.startswith("["), index, 0, ()) for index, word in enumerate(words)
    )
    weights = np.zeros((2, 2, len(words), len(words)), np.float32)
    weights[:, :, :, 0] = 0.75
    weights[0, 0, 1:4, 2] = 0.25
    return bertscope.AttentionMaps(0, " ".join(words), None, tokens, weights, (0, 1), (0, 1), 0, PROVENANCE)


def opened(browser: Browser, words: tuple[str, ...], **options: object) -> Watched:
    context = browser.new_context(**options)  # type: ignore[arg-type]
    page = workbench.attention_page(maps(words)).html
    context.route(f"http://{HOST}/**", lambda route: route.fulfill(body=page, content_type="text/html; charset=utf-8"))
    watched = Watched(context, HOST)
    watched.tab.goto(f"http://{HOST}/maps.html")
    return watched


@pytest.mark.parametrize(("scheme", "background"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 24, 31)")])
def test_lines_of_a_head(browser: Browser, scheme: str, background: str) -> None:
    watched = opened(browser, WORDS, color_scheme=scheme)
    tab = watched.tab
    lines, names = tab.locator("#lines line"), tab.locator("#lines text")
    assert (lines.count(), names.all_text_contents()) == (8, [word for word in WORDS for _ in range(2)])
    names.nth(2).hover()  # "the", on the left
    assert tab.locator("#lines line:visible").evaluate_all("lines => lines.map((line) => line.dataset.to)") == ["2", "0"]
    assert tab.locator("#lines .chosen").all_text_contents() == ["the"]
    tab.uncheck("#special")
    assert (lines.count(), names.count()) == (3, 6)
    assert lines.first.get_attribute("stroke-opacity") == "1"  # the largest weight of those that are drawn
    tab.select_option("#layer", "1")
    assert lines.count() == 0
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == background
    tab.context.close()
    watched.check()


def test_a_long_text_has_no_lines(browser: Browser) -> None:
    watched = opened(browser, WORDS * 15)
    assert not watched.tab.locator("#beside").is_visible()
    assert watched.tab.locator("#map").is_visible()
    watched.tab.context.close()
    watched.check()


@pytest.mark.parametrize("width", [320, 700, 1400])
def test_in_a_notebook_it_is_as_high_as_its_content_and_no_wider_than_its_cell(browser: Browser, width: int) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 600})
    many = dataclasses.replace(maps(WORDS), attention=np.zeros((2, 12, 5, 5), np.float32), heads=tuple(range(12)))
    tab.set_content(f"<body style='margin: 0'>{workbench.attention_page(many)._repr_html_()}")
    frame = "document.querySelector('iframe')"
    inner = f"{frame}.contentDocument.documentElement"
    tab.wait_for_function(f"{frame}.clientHeight > {inner}.getBoundingClientRect().height")
    assert tab.evaluate(f"{inner}.scrollHeight - {frame}.clientHeight") == 0
    assert tab.evaluate(f"{inner}.scrollWidth") == width
    tab.context.close()


BROKEN = """() => [...document.querySelectorAll("td")].filter(cell => {
    const text = document.createRange();
    text.selectNodeContents(cell);
    return new Set([...text.getClientRects()].map(line => Math.round(line.top))).size > 1;
}).map(cell => [cell.className, cell.textContent])"""
"""The cells of more than one line."""


def test_cells_are_whole_and_the_page_is_as_wide_as_the_window(browser: Browser) -> None:
    page = html_page(
        reports.read_report(reports.model("base"), reports.model("quick", 3.0, kept=0.9), reports.model("slow", 1.01))
    )
    for width in (400, 800, 1400):
        tab = browser.new_page(viewport={"width": width, "height": 900})
        tab.set_content(page)
        # On a phone words may wrap; numbers never.
        assert [text for kind, text in tab.evaluate(BROKEN) if kind == "number" or width > 400] == []
        assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.emulate_media(media="print")
    tab.set_viewport_size({"width": 718, "height": 1000})  # A4 less a centimetre on each side
    for printed in (page, html_page(reports.read_studies(reports.study("DistilBERT (Sanh 2019a)", 1.9, compression="1.5")))):
        tab.set_content(printed)
        assert [text for kind, text in tab.evaluate(BROKEN) if kind == "number"] == []
        assert tab.evaluate("[...document.querySelectorAll('.wide')].every(each => each.scrollWidth <= each.clientWidth)")
