"""axe-core finds nothing to object to, in every view and state, light and dark, wide and narrow."""

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from tests.support.browsing import Watched
from tests.support.patience import granted

pytestmark = pytest.mark.slow

LOOKS = re.compile("looks at")
PROBES = '[["upos.csv","","",[[0,0.7,0.6,0.8,0.5,0.6],[1,0.8,0.7,0.9,0.4,0.5]]]]'
LONG = "the+old+house+by+the+river+" * 20


def explore_is_drawn(tab: Tab) -> None:
    expect(tab.locator(".looks")).to_contain_text(LOOKS)


def measured(tab: Tab) -> None:
    explore_is_drawn(tab)
    tab.get_by_role("button", name="Measure every head").click()
    expect(tab.locator(".worth .status-line")).to_contain_text("one by one")


def explained(tab: Tab) -> None:
    expect(tab.locator(".words .status-line")).to_contain_text("exact", timeout=granted(60_000))


def menu_is_open(tab: Tab) -> None:
    explore_is_drawn(tab)
    tab.get_by_text("Save picture").click()


def found(tab: Tab) -> None:
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places, in")
    expect(tab.locator(".context-word.own").first).to_be_visible()


def helped(tab: Tab) -> None:
    explore_is_drawn(tab)
    tab.locator(".head-grid [tabindex='0']").press("?")
    expect(tab.get_by_role("dialog", name="Heads")).to_be_visible()


def pairs_are_compared(tab: Tab) -> None:
    tab.get_by_label("Sentences, or the contents of a file").fill("The cats sleep. | The cats sleeps.")
    tab.get_by_role("button", name="Read").click()
    expect(tab.get_by_text("The right sentence is likelier")).to_be_visible()


def sentences_are_read(tab: Tab) -> None:
    tab.get_by_label("Sentences, or the contents of a file").fill("text\tanswer\nParis is the capital of [MASK].\tfrance\nx\n")
    tab.get_by_label("Read as").select_option(".tsv")
    tab.get_by_role("button", name="Read").click()
    tab.get_by_role("button", name="Edit a copy of").click()
    tab.get_by_label("Edited sentence").press("Enter")
    expect(tab.locator(".below .change").first).to_be_visible()
    tab.get_by_role("button", name="Edit a copy of").first.click()


def compared(tab: Tab) -> None:
    expect(tab.locator(".attention-matrix")).to_have_count(2)
    expect(tab.locator(".page-footer .status-line")).to_contain_text("compared in")


def layers_are_drawn(tab: Tab) -> None:
    expect(tab.locator(".word-grid")).to_contain_text("#1")
    expect(tab.locator(".curve svg")).to_be_visible()
    tab.get_by_text("Numbers", exact=True).click()


def traced(tab: Tab) -> None:
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places in")
    expect(tab.get_by_label("The model with one place patched")).to_contain_text("%")


STATES: dict[str, tuple[str, Callable[[Tab], None]]] = {
    "explore": ("#explore", explore_is_drawn),
    "changed": ("#explore?changes=x1-8_u3-0-1_s5-11*0.5_m0-0&reference=a+cat&show=moved", explore_is_drawn),
    "every brush": ("#explore?brush=m", explore_is_drawn),
    "no mask": ("#explore?text=The+cat+sat.", explore_is_drawn),
    "matrix": ("#explore?as=matrix&special=hidden&large=1", explore_is_drawn),
    "long": (f"#explore?text={LONG}", lambda tab: expect(tab.locator(".looks")).to_contain_text("several tokens")),
    "measured": ("#explore", measured),
    "words": ("#explore?why=1&over=is", explained),
    "a word masked": (
        "#explore?why=1&mask=1&answer=france&text=Paris+is+the+[MASK]+of+[MASK].&taken=[[13,%22capital%22]]",
        explained,
    ),
    "menu": ("#explore", menu_is_open),
    "no such model": (
        "#explore?model=nothing",
        lambda tab: expect(tab.locator(".reason")).to_contain_text("nothing"),
    ),
    "error": ("#explore?changes=x99-0", lambda tab: expect(tab.locator("[data-kind=error]")).to_be_visible()),
    "empty": ("#explore?text=", lambda tab: expect(tab.locator(".reason")).to_be_visible()),
    "compare": ("#compare?changes=x1-8", compared),
    "find a head": ("#find?unit=head:1:8&find_show=tenths", found),
    "find a neuron": ("#find?unit=neuron:3:217", found),
    "find a word": ("#find?unit=state:4", found),
    "help": ("#explore", helped),
    "sentences": ("#sentences?at=1.8&table_sort=-loss", sentences_are_read),
    "pairs": ("#sentences?sentences_kind=pairs", pairs_are_compared),
    "layers": (f"#layers?layersanswer=are&layerscolour=rank&layersprobes={PROBES}", layers_are_drawn),
    "trace": ("#trace", traced),
    "trace of heads": (
        "#trace?tracesite=heads&tracedirection=break&traceother=The+dog+[MASK].&text=The+cat+[MASK].&traceanswer=is",
        traced,
    ),
    "models": ("#models", lambda tab: expect(tab.get_by_role("table")).to_be_visible()),
    "no such view": ("#nothing", lambda tab: expect(tab.locator("main")).to_contain_text("no view")),
}


def check(tab: Tab, width: int) -> None:
    found = Axe().run(tab)
    assert not found.response["violations"], found.generate_report()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_is_content_with_the_tour(visit: Callable[..., Watched]) -> None:
    tab = visit("#explore", color_scheme="dark", width=420, tour=True).tab
    explore_is_drawn(tab)
    for _ in range(3):
        tab.get_by_role("button", name="Next").click()
    check(tab, 420)


@pytest.mark.parametrize("state", STATES)
def test_axe_is_content(visit: Callable[..., Watched], state: str) -> None:
    """On a phone at night, and the same page on a wide screen by day."""
    fragment, ready = STATES[state]
    tab = visit(fragment, color_scheme="dark", width=420).tab
    ready(tab)
    check(tab, 420)
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.emulate_media(color_scheme="light")
    check(tab, 1440)


def test_nothing_moves_for_those_who_want_that(visit: Callable[..., Watched]) -> None:
    tab = visit("#explore").tab
    explore_is_drawn(tab)
    assert tab.evaluate("document.getAnimations().length") == 0
