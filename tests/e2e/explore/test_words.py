"""The switch "words" in a real browser: numbers are the client's, refined in place, and never another sentence's."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from urllib.parse import quote

import bertscope
import pytest
from bertscope_workbench.plots.words_html import signed
from playwright.sync_api import Locator, Route, expect
from playwright.sync_api import Page as Tab

from tests.support.browsing import Watched
from tests.support.disturbance import COMMAND
from tests.support.page import Page
from tests.support.patience import granted, wait_until
from tests.support.process import Process

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]
TEXT = "Paris is the capital of [MASK]."
PARIS = "#explore?text=Paris+is+the+capital+of+[MASK]."
LONG = "The old man walked to the market every day and bought [MASK] for his wife."
WAIT = granted(60_000)


def word(tab: Tab, text: str) -> Locator:
    return tab.get_by_role("button", name=re.compile(rf"^{re.escape(text)}( [+-][\d.]+|$)"))


def status(tab: Tab) -> Locator:
    return tab.locator(".words .status-line")


def shows(tab: Tab, found: bertscope.WordAttribution) -> None:
    """Waits until each word has its value of the answer."""
    expect(status(tab)).to_contain_text("exact Shapley values", timeout=WAIT)
    numbers = [signed(found, value) for value in found.values]
    expect(tab.locator("[data-kind=word] .word-number")).to_have_text(numbers, timeout=WAIT)
    assert tab.locator("[data-kind=word] .word-name").all_inner_texts() == [
        found.text[each.start : each.end] for each in found.units
    ]


def explained(client: bertscope.Client, text: str, answer: bertscope.Answer, **how: object) -> bertscope.WordAttribution:
    return client.attribute_words(text, answer, **how)[0]


def test_the_first_prediction_is_explained_and_then_the_clicked_one(visit: Visit, client: bertscope.Client) -> None:
    tab = visit(PARIS).tab
    expect(tab.locator(".word-values")).to_be_hidden()
    tab.get_by_role("switch", name="words").check()
    shows(tab, explained(client, TEXT, bertscope.Answer("france")))
    tab.get_by_role("button", name="paris", exact=True).click()
    paris = explained(client, TEXT, bertscope.Answer("paris"))
    shows(tab, paris)
    tab.get_by_role("button", name="london", exact=True).click(modifiers=["Shift"])
    shows(tab, explained(client, TEXT, bertscope.Answer("paris", "london")))
    tab.get_by_label("and not").select_option("nothing else")
    shows(tab, paris)
    tab.reload()
    shows(tab, paris)
    tab.go_back()
    shows(tab, explained(client, TEXT, bertscope.Answer("paris", "london")))
    tab.get_by_role("switch", name="words").uncheck()
    expect(tab.locator(".word-values")).to_be_hidden()
    expect(tab.locator("button.bar-name")).to_have_count(0)


def test_occlusion_is_refined_in_place(visit: Visit) -> None:
    tab = visit(PARIS).tab
    expect(tab.locator(".looks")).to_contain_text("looks at")
    tab.evaluate(
        """() => {
            window.said = [];
            const line = document.querySelector(".words .status-line");
            new MutationObserver(() => {
                window.said.push(line.textContent);
                window.kept ??= document.querySelector("[data-kind=word] .word-number");
            }).observe(line, {childList: true});
        }"""
    )
    tab.get_by_role("switch", name="words").check()
    expect(status(tab)).to_contain_text("exact Shapley values", timeout=WAIT)
    said = tab.evaluate("window.said")
    assert "occlusion" in next(each for each in said if "sum" in each)
    assert "exact" in said[-1]
    assert tab.evaluate("window.kept.isConnected")


def test_a_click_masks_a_word_and_another_brings_it_back(visit: Visit, client: bertscope.Client) -> None:
    tab = visit(PARIS + "&why=1").tab
    whole = explained(client, TEXT, bertscope.Answer("france"))
    shows(tab, whole)
    word(tab, "capital").click()
    box = tab.locator(".sentence textarea")
    masked = "Paris is the [MASK] of [MASK]."
    expect(box).to_have_value(masked)
    shows(tab, explained(client, masked, bertscope.Answer("france", mask=1)))
    word(tab, "Paris").click()
    expect(box).to_have_value("[MASK] is the [MASK] of [MASK].")
    shows(tab, explained(client, "[MASK] is the [MASK] of [MASK].", bertscope.Answer("france", mask=2)))
    tab.get_by_role("button", name="[MASK] Paris (masked by you; brings it back)").click()
    tab.get_by_role("button", name="[MASK] capital (masked by you; brings it back)").click()
    expect(box).to_have_value(TEXT)
    shows(tab, whole)
    tab.get_by_role("button", name="Undo").click()
    expect(box).to_have_value(masked)


def test_words_by_keyboard_alone(visit: Visit, client: bertscope.Client) -> None:
    tab = visit(PARIS).tab
    expect(tab.locator(".looks")).to_contain_text("looks at")
    tab.get_by_role("switch", name="words").focus()
    tab.keyboard.press("Space")
    shows(tab, explained(client, TEXT, bertscope.Answer("france")))
    tab.locator(".word-values [tabindex='0']").focus()
    expect(tab.locator(".word-readout")).to_contain_text(re.compile(r"^Paris [+-]"))
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("Enter")
    masked = "Paris is the [MASK] of [MASK]."
    expect(tab.locator(".sentence textarea")).to_have_value(masked)
    shows(tab, explained(client, masked, bertscope.Answer("france", mask=1)))
    expect(tab.locator(":focus")).to_have_accessible_name(re.compile("capital .masked by you"))
    tab.keyboard.press("Enter")
    shows(tab, explained(client, TEXT, bertscope.Answer("france")))
    tab.get_by_role("button", name="paris", exact=True).focus()
    tab.keyboard.press("Enter")
    shows(tab, explained(client, TEXT, bertscope.Answer("paris")))
    expect(tab.locator(":focus")).to_have_text("paris")


def test_values_of_another_sentence_are_never_shown(visit: Visit) -> None:
    tab = visit(PARIS + "&why=1").tab
    expect(status(tab)).to_contain_text("exact Shapley values", timeout=WAIT)
    held: list[Route] = []
    tab.route("**/api/inspect", lambda route: held.append(route))
    word(tab, "capital").click()
    expect(tab.locator("[data-kind=taken]")).to_have_count(1)
    assert "".join(tab.locator("[data-kind=word] .word-number").all_inner_texts()) == ""
    expect(status(tab)).to_be_empty()
    wait_until(lambda: tab.evaluate("1") and held, "the question is held")
    held[-1].continue_()
    expect(status(tab)).to_contain_text("exact Shapley values", timeout=WAIT)


def test_another_sentence_cancels_what_runs(visit: Visit, launch: Callable[..., Process]) -> None:
    server = launch()
    server.wait_until_serving()
    with Page(server.target) as page:
        tab = visit(f"#explore?why=1&text={LONG.replace(' ', '+')}", of=page).tab
        expect(status(tab)).to_contain_text("occlusion", timeout=WAIT)
        tab.locator(".sentence textarea").fill(TEXT)
        wait_until(lambda: re.search("method=AttributeWords code=CANCELLED", server.text), "the call is cancelled")
        expect(status(tab)).to_contain_text("exact Shapley values", timeout=WAIT)
        assert tab.locator("[data-kind=word]").count() == 6


def test_a_sentence_without_a_mask(visit: Visit) -> None:
    tab = visit("#explore?why=1&text=The+cat+sat.").tab
    expect(status(tab)).to_contain_text("No mask: press a word")
    word(tab, "cat").click()
    expect(tab.locator(".sentence textarea")).to_have_value("The [MASK] sat.")
    expect(status(tab)).to_contain_text("exact Shapley values", timeout=WAIT)


def test_the_command_and_the_python_of_what_is_shown(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore?why=1&over=paris&changes=x1-8&text=Paris+is+the+[MASK]+of+[MASK].&mask=1&answer=france").tab
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer = bertscope.Answer("france", "paris", mask=1)
    expected = explained(client, "Paris is the [MASK] of [MASK].", answer, interventions=[bertscope.zero(1, [8])])
    shows(tab, expected)
    tab.get_by_role("button", name="Command", exact=True).click()
    words = shlex.split(tab.evaluate("navigator.clipboard.readText()"))
    command = [*COMMAND, *words[1:], "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=granted(90), check=True)
    (result,) = json.loads(done.stdout)["results"]
    assert [each["value"] for each in result["words"]] == pytest.approx(expected.values.tolist(), rel=1e-4)
    tab.get_by_role("button", name="Python", exact=True).click()
    found: dict[str, bertscope.WordAttributions] = {}
    exec(tab.evaluate("navigator.clipboard.readText()"), found)
    assert found["found"][0].values == pytest.approx(expected.values, rel=1e-4)


def test_places_are_code_points(visit: Visit, client: bertscope.Client) -> None:
    text = "\U0001f98a: Paris is the capital of [MASK]."
    tab = visit(f"#explore?why=1&answer=france&text={quote(text)}").tab
    shows(tab, explained(client, text, bertscope.Answer("france")))
    word(tab, "capital").click()
    expect(tab.locator(".sentence textarea")).to_have_value("\U0001f98a: Paris is the [MASK] of [MASK].")
    tab.get_by_role("button", name="[MASK] capital").click()
    expect(tab.locator(".sentence textarea")).to_have_value(text)
