"""The Explore view in a real browser: what is shown is what the client says; pointer, keyboard, links, pictures."""

import re
import shlex
import subprocess
from collections.abc import Callable

import bertscope
import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from tests.support.browsing import Watched, named
from tests.support.disturbance import COMMAND
from tests.support.patience import granted

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]
TEXT = "The keys to the cabinet [MASK] on the table."
HOSTILE = '<img src=x onerror="window.hurt=1">'


def percent(share: float) -> str:
    return "< 0.1 %" if 0 < share < 0.0005 else f"{share * 100:.1f} %"


def head(tab: Tab, layer: int, number: int) -> object:
    return tab.get_by_role("gridcell", name=named(f"layer {layer} head {number}"))


def shows(tab: Tab, answer: bertscope.Inspection) -> None:
    """Waits until the first prediction is that of the answer, and compares all that it shows."""
    entries = answer.masks[0].predictions
    expect(tab.locator(".headline")).to_contain_text(f"{entries[0].token} {percent(entries[0].probability)}")
    for entry, row in zip(entries, tab.locator(".bars li").all(), strict=True):
        expect(row).to_contain_text(entry.token)
        expect(row).to_contain_text(percent(entry.probability))


def inspected(client: bertscope.Client, text: str = TEXT, changes: list[object] | None = None) -> bertscope.Inspection:
    return client.inspect(text, top_k=10, interventions=changes or [], compare_untouched=bool(changes))


def test_a_click_changes_what_the_client_says_it_does(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore").tab
    shows(tab, inspected(client))
    tab.get_by_role("radio", name="silences").check(force=True)
    head(tab, 1, 8).click()
    changed = inspected(client, changes=[bertscope.zero(1, [8])])
    shows(tab, changed)
    expect(head(tab, 1, 8)).to_have_accessible_name(re.compile("silenced"))
    tab.get_by_role("radio", name="Moved").check(force=True)
    moved = changed.distances.moved
    for layer, number in ((0, 0), (2, 8), (5, 3)):
        expect(head(tab, layer, number)).to_have_accessible_name(
            named(f"layer {layer} head {number}, moved {percent(moved[layer, number])}")
        )
    tab.get_by_role("radio", name="flattens").check(force=True)
    tab.get_by_role("rowheader", name="layer 3", exact=True).click()
    shows(tab, inspected(client, changes=[bertscope.zero(1, [8]), bertscope.uniform(3)]))
    tab.get_by_role("button", name="Undo").click()
    shows(tab, changed)
    tab.reload()
    shows(tab, changed)
    tab.get_by_role("button", name="Take back: 1:8 silenced").click()
    shows(tab, inspected(client))
    tab.go_back()
    shows(tab, changed)


def test_dragging_paints(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore?brush=x").tab
    shows(tab, inspected(client))
    first, last = (head(tab, 2, number).bounding_box() for number in (3, 6))
    tab.mouse.move(first["x"] + 5, first["y"] + 5)
    tab.mouse.down()
    tab.mouse.move(last["x"] + 5, last["y"] + 5, steps=20)
    tab.mouse.up()
    changed = inspected(client, changes=[bertscope.zero(2, [3, 4, 5, 6])])
    shows(tab, changed)
    expect(tab.locator(".chip")).to_have_text("✕ 2:3,4,5,6")
    tab.get_by_role("button", name="Undo").click()  # A stroke is one step.
    shows(tab, inspected(client))


def test_by_keyboard_alone(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore").tab
    shows(tab, inspected(client))
    tab.locator(".head-grid [tabindex='0']").focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("s")
    tab.keyboard.press("Enter")
    shows(tab, inspected(client, changes=[bertscope.scale(1, [1], factor=0.5)]))
    tab.keyboard.press("Enter")
    shows(tab, inspected(client))
    tab.keyboard.press("Escape")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Layer 1, head 1")).to_be_visible()
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("f")
    tab.keyboard.press(" ")
    shows(tab, inspected(client, changes=[bertscope.uniform(1)]))
    tab.locator(".attention-lines").focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("m")
    expect(tab.locator(".sentence textarea")).to_have_value("[MASK] keys to the cabinet [MASK] on the table.")


def test_the_attention_of_a_head(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore?at=4.9").tab
    weights = client.inspect(TEXT, maps=bertscope.MapView({4: [9]}, format="float32"))
    tokens = [token.text for token in weights.tokens]
    row = weights.maps[0].cells[0][tokens.index("[MASK]")]
    best = max(range(len(tokens)), key=lambda column: row[column])
    expect(tab.locator(".looks")).to_contain_text(f"[MASK] looks at {tokens[best]} {percent(row[best])}")
    tab.locator(f"#from-{tokens.index('cabinet')}").click()
    expect(tab.locator(".looks")).to_contain_text("cabinet looks at")
    tab.get_by_label("special tokens").uncheck()
    expect(tab.locator(".attention-lines [role=option]")).to_have_count(len(tokens) - 2)
    tab.get_by_role("radio", name="Matrix").check(force=True)
    matrix = tab.locator(".attention-matrix")
    expect(matrix).to_be_visible()
    matrix.hover(position={"x": 200, "y": 200})
    expect(tab.locator(".detail .readout")).to_contain_text("looks at")
    tab.locator(".sentence textarea").fill("The unbelievability of it [MASK] us.")
    tab.get_by_label("whole words").check()
    expect(tab.locator(".attention-matrix text").filter(has_text=re.compile("^unbelievab"))).to_have_count(2)


def test_a_long_text_is_a_picture_to_look_into(visit: Visit, client: bertscope.Client) -> None:
    text = "the committee met again in the old house by the river , and " * 14 + "[MASK] ."
    tab = visit("#explore?at=1.8").tab
    tab.locator(".sentence textarea").fill(text)
    expect(tab.locator(".looks")).to_contain_text("Each cell is the largest weight of several tokens")
    shows(tab, inspected(client, text))
    tab.locator(".attention-matrix").click(position={"x": 250, "y": 250})
    expect(tab.locator(".looks")).to_contain_text("looks at")
    tab.get_by_role("button", name="Whole text").click()
    expect(tab.locator(".looks")).to_contain_text("several tokens")


def test_masks_are_made_by_double_click_and_letters(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore").tab
    box = tab.locator(".sentence textarea")
    box.fill("The cat sat on the mat.")
    expect(tab.locator(".predictions")).to_contain_text("No mask")
    expect(tab.locator(".looks")).to_contain_text("looks at")  # Attention is shown all the same.
    box.press("Home")
    for _ in range(5):
        box.press("ArrowRight")
    box.press("Alt+m")
    expect(box).to_have_value("The [MASK] sat on the mat.")
    shows(tab, inspected(client, "The [MASK] sat on the mat."))


def test_what_was_measured_is_measured_again_for_a_new_sentence(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#explore").tab
    shows(tab, inspected(client))
    tab.get_by_role("button", name="Measure every head").click()
    expect(tab.locator(".worth .status-line")).to_contain_text("one by one")
    tab.locator(".sentence textarea").fill("The cat sat on the [MASK].")
    with client.sweep_heads(bertscope.Divergence(["The cat sat on the [MASK]."])) as sweep:
        effects = {(effect.layer, effect.head): effect.metrics["divergence"].difference for effect in sweep}
    most = max(effects, key=lambda each: effects[each])
    expect(head(tab, *most)).to_have_accessible_name(
        named(f"layer {most[0]} head {most[1]}, moves predictions by {effects[most]:.3f} nats"), timeout=granted(60_000)
    )
    expect(tab.locator(".worth .status-line")).to_contain_text("one by one")
    tab.locator(".sentence textarea").fill("Nothing is hidden here.")
    expect(tab.locator(".legend")).to_contain_text("Nothing is measured yet: press Measure every head.")


def test_a_sweep_is_stopped_and_keeps_what_it_has(visit: Visit, client: bertscope.Client) -> None:
    watched = visit("#explore")
    tab = watched.tab
    shows(tab, inspected(client))
    tab.get_by_text("Measure over further sentences").click()
    tab.get_by_label("Further sentences").fill(
        "\n".join(f"The {word} is very [MASK] today." for word in "abcdefghijklmnopqrstuvwxyz" * 8)
    )
    tab.get_by_role("button", name="Measure every head").click()
    expect(tab.locator(".worth progress")).not_to_have_attribute("value", "0")
    tab.get_by_role("button", name="Stop").click()
    expect(tab.locator(".worth .status-line")).to_contain_text(re.compile(r"^Stopped after [1-9]\d* of"))
    assert tab.locator(".head:not(.waiting)").count() > 0


def test_the_command_and_the_python_of_a_state(visit: Visit, client: bertscope.Client) -> None:
    """Also of a text with quotes that looks like an option."""
    text = '--json is "[MASK]".'
    tab = visit("#explore?changes=x1-8-9_s5-11*0.5&text=--json+is+%22[MASK]%22.").tab
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    changed = inspected(client, text, [bertscope.zero(1, [8, 9]), bertscope.scale(5, [11], factor=0.5)])
    shows(tab, changed)
    tab.get_by_role("button", name="Copy command").click()
    words = shlex.split(tab.evaluate("navigator.clipboard.readText()"))
    assert text in words
    done = subprocess.run([*COMMAND, *words[1:]], capture_output=True, text=True, timeout=granted(90), check=True)
    assert changed.masks[0].predictions[0].token in done.stdout
    tab.get_by_role("button", name="Copy Python").click()
    found: dict[str, bertscope.Inspection] = {}
    exec(tab.evaluate("navigator.clipboard.readText()"), found)
    assert found["found"].masks[0].predictions[0].probability == pytest.approx(
        changed.masks[0].predictions[0].probability, rel=1e-4
    )
    tab.get_by_role("button", name="Copy link").click()
    other = visit(tab.evaluate("navigator.clipboard.readText()").partition("/#")[2].join(["#", ""])).tab
    shows(other, changed)


def test_pictures(visit: Visit, client: bertscope.Client) -> None:
    watched = visit("#explore?changes=x1-8")
    tab = watched.tab
    shows(tab, inspected(client, changes=[bertscope.zero(1, [8])]))
    expect(tab.locator(".attention-lines")).to_be_visible()
    files = {}
    for name in ("Heads, SVG", "Heads, PNG", "Attention, SVG", "Attention, PNG", "Whole view, HTML"):
        tab.get_by_text("Save picture").click()
        with tab.expect_download() as download:
            tab.get_by_role("button", name=name).click()
        files[name] = download.value.path()
    assert files["Heads, PNG"].read_bytes().startswith(b"\x89PNG")
    assert files["Attention, PNG"].stat().st_size > 5000
    assert "<image" in files["Heads, SVG"].read_text()
    assert "cabinet" in files["Attention, SVG"].read_text()
    saved = tab.context.new_page()
    saved.goto("about:blank")
    saved.set_content(files["Whole view, HTML"].read_text())
    expect(saved.locator("body")).to_contain_text(TEXT)
    expect(saved.locator(".headline")).to_be_visible()
    expect(saved.locator("pre")).to_contain_text("@inproceedings{clark-etal-2019-bert,")
    assert saved.locator(".head img").count() == client.get_model().layers * client.get_model().heads


SHOWN = ["changes", "at", "show", "brush", "as", "row", "mask", "window"]
ASKED = ["factor", "threshold", "reference", "words", "answer", "over", "taken"]


@pytest.mark.parametrize("keys", [["text"], ["model"], SHOWN, ASKED], ids=["text", "model", "what is shown", "what is asked"])
def test_hostile_links_are_harmless(visit: Visit, keys: list[str]) -> None:
    hostile = HOSTILE.replace(" ", "+")
    tab = visit(f"#explore?why=1&{'&'.join(f'{key}={hostile}' for key in keys)}").tab
    expect(tab.locator(".sentence textarea")).to_be_visible()
    if keys == ["text"]:
        expect(tab.locator(".sentence textarea")).to_have_value(HOSTILE)
        expect(tab.locator(".attention-lines [role=option]").first).to_be_visible()
    assert tab.evaluate("window.hurt") is None
    assert tab.locator("main img").count() == 0
