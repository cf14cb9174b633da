"""The page explains itself: the tour, help for what has the focus, heads in words, the head that is shown first."""

import re
from collections.abc import Callable

import bertscope
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.support.browsing import Watched

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]
STEPS = 9
SHAPE = """each => {
    const {borderTopLeftRadius, borderTopRightRadius, borderLeftColor, borderTopColor} = getComputedStyle(each);
    return [borderTopLeftRadius, borderTopRightRadius, borderLeftColor === borderTopColor].join();
}"""


def test_the_tour_begins_on_first_use_and_is_remembered(visit: Visit) -> None:
    tab = visit("#explore", tour=True).tab
    tour = tab.locator(".tour")
    expect(tour).to_contain_text("What does the model write?")
    expect(tour).to_be_focused()
    tour.press("ArrowRight")
    expect(tour).to_contain_text(f"2 of {STEPS}")
    tab.reload()
    expect(tour).to_contain_text(f"2 of {STEPS}")  # It goes on where the visit ended.
    expect(tour).to_be_focused()
    tour.press("Escape")
    expect(tour).to_have_count(0)
    tab.reload()
    expect(tab.locator(".looks")).to_contain_text("looks at")
    expect(tour).to_have_count(0)


def test_the_tour_by_keyboard_alone(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore", tour=True).tab
    expect(tab.locator(".looks")).to_contain_text("looks at")
    expect(tab.locator(".tour")).to_be_focused()
    rings = []
    for step in range(1, STEPS + 1):
        expect(tab.locator(".tour")).to_contain_text(f"{step} of {STEPS}")
        rings.append(tab.locator(".tour-ring").bounding_box())
        if step in (4, 6):
            tab.keyboard.press("Tab")
            tab.keyboard.press("Enter")
            expect(tab.locator(".chips" if step == 4 else ".worth .status-line")).to_contain_text(
                "4:10" if step == 4 else "one by one"
            )
        tab.locator(".tour").press("ArrowRight")
    expect(tab.locator(".tour")).to_have_count(0)
    assert all(box and box["width"] > 40 for box in rings)
    assert len({(box["x"], box["width"], box["height"]) for box in rings if box}) == STEPS
    with client.sweep_heads(bertscope.Divergence(["The keys to the cabinet [MASK] on the table."])) as sweep:
        assert tab.locator(".head:not(.waiting)").count() == sum(1 for each in sweep if isinstance(each, bertscope.HeadEffect))


def test_help_is_about_what_has_the_focus(visit: Visit) -> None:
    tab = visit("#explore").tab
    expect(tab.locator(".looks")).to_contain_text("looks at")
    dialog = tab.locator("dialog.help")
    tab.locator(".head-grid [tabindex='0']").press("?")
    expect(dialog.get_by_role("heading", name="Heads")).to_be_visible()
    expect(dialog).to_contain_text("choose the brush")
    expect(dialog).to_contain_text("map of a head, weight")
    tab.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(tab.locator(".head-grid [tabindex='0']")).to_be_focused()
    box = tab.locator(".sentence textarea")
    box.press("?")
    expect(dialog).to_be_hidden()  # In a field, it is a letter.
    expect(box).to_have_value(re.compile(r"\?"))
    box.press("F1")
    expect(dialog.get_by_role("heading", name="Explore")).to_be_visible()
    dialog.get_by_role("button", name="Take the tour").click()
    expect(tab.locator(".tour")).to_contain_text(f"1 of {STEPS}")


def test_a_head_says_its_value_and_what_it_does(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore").tab
    texts = tab.evaluate("import('/static/js/examples.js').then(module => module.EXAMPLES)")
    described = client.describe_attention(texts)
    map_ = client.inspect(texts[0], maps=bertscope.MapView({1: [8]}, format="float32")).maps[0].cells[0]
    previous, following = described.mean("previous"), described.mean("next")
    first = np.unravel_index(previous.argmax(), previous.shape)
    expect(tab.get_by_role("heading", name=f"Layer {first[0]}, head {first[1]}")).to_be_visible()
    assert tab.url.endswith("#explore")  # The head was chosen by the page, and is no step.
    head = tab.locator(".head[data-row='2'][data-column='9']")
    readout = tab.locator(".heads-panel .readout")
    expect(head).to_have_accessible_name(re.compile("attends to"))
    head.hover()
    expect(readout).to_contain_text(f"attends to the next token ({100 * following[1, 8]:.1f}")
    found = re.search(r"largest weight ([\d.]+)", readout.inner_text())
    assert found
    assert float(found[1]) == pytest.approx(100 * map_.max(), abs=0.3)
    tab.mouse.move(5, 5)
    expect(readout).to_contain_text("Point at a head")
    tab.locator(".head-grid [tabindex='0']").focus()
    tab.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("layer 0 head 1")


def test_changes_differ_by_shape(visit: Visit) -> None:
    tab = visit("#explore?changes=x0-0_u0-1_s0-3*0.5_m0-4&reference=a+cat").tab
    expect(tab.locator(".looks")).to_contain_text("looks at")
    for group in (".head:is(.silenced, .flattened, .scaled, .averaged)", ".brushes .mark:not([class='mark '])", ".chip .mark"):
        shapes = [each.evaluate(SHAPE) for each in tab.locator(group).all()]
        assert len(shapes) == len(set(shapes)) == 4, (group, shapes)
