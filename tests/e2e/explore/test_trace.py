"""The Trace view in a real browser: numbers are the client's, a cell shows the model with it, links and copies lead back."""

import re
import shlex
from collections.abc import Callable

import bertscope
import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from tests.support.browsing import Watched

pytestmark = pytest.mark.slow

CLEAN, CORRUPTED = "The keys to the old cabinet [MASK] on the table.", "The key to the old cabinet [MASK] on the table."
Visit = Callable[..., Watched]


def cell(tab: Tab, layer: int, layers: int, position: int):
    return tab.locator(f'.word-grid [data-row="{layers - 1 - layer}"][data-column="{position}"]')


def traced(tab: Tab) -> None:
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places in")


def test_numbers_are_the_clients(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#trace").tab
    traced(tab)
    trace = client.trace(CLEAN, CORRUPTED, bertscope.Answer("are", "is"))
    patch = bertscope.patch(4, CLEAN, positions=[1])
    (patched,) = client.fill_mask(CORRUPTED, top_k=1, interventions=patch)
    layers = len(trace.layers)
    for layer, position in ((0, 2), (4, 1), (5, 7)):
        share = trace.recovery[layer, position]
        assert share > 0.1
        expect(cell(tab, layer, layers, position)).to_have_text(f"{share:.2f}")
    expect(tab.locator(".trace-pair .differs")).to_have_text(["keys", "key"])
    cell(tab, 4, layers, 1).click()
    panel = tab.get_by_label("The model with one place patched")
    expect(panel).to_contain_text("Layer 4, the")
    best = patched.masks[0].predictions[0]
    expect(panel.locator(".bars li").first).to_contain_text(best.token)
    assert re.search(r"traceat=4\.1", tab.url)


def test_a_cell_is_dragged_into_another_sentence(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#trace?traceat=3.2").tab
    traced(tab)
    other = "The dog [MASK] here."
    panel = tab.get_by_label("The model with one place patched")
    panel.get_by_label("Put it into another sentence").fill(other)
    panel.get_by_label("Put it into another sentence").press("Enter")
    expect(panel).to_contain_text(f'of "{other}"')
    layers = client.get_model().layers
    patch = bertscope.patch(0, CLEAN, positions=[2])
    (patched,) = client.fill_mask(other, top_k=1, interventions=patch)
    cell(tab, 0, layers, 2).drag_to(panel)
    expect(panel).to_contain_text("Layer 0, keys")
    expect(panel).to_contain_text(f'of "{other}"')
    expect(panel.locator(".bars li").first).to_contain_text(patched.masks[0].predictions[0].token)
    assert "traceinto=The+dog" in tab.url
    tab.reload()
    traced(tab)
    expect(panel).to_contain_text(f'of "{other}"')


def test_what_is_copied_runs(visit: Visit, target: str) -> None:
    tab = visit("#trace?traceat=4.1", permissions=["clipboard-read", "clipboard-write"]).tab
    traced(tab)
    expect(tab.get_by_label("The model with one place patched")).to_contain_text("Layer 4, the")
    copied = {}
    for name in ("Copy command", "Copy Python", "Copy its command", "Copy its Python"):
        tab.get_by_role("button", name=name).click()
        expect(tab.get_by_role("button", name="Copied").first).to_be_visible()
        copied[name] = tab.evaluate("navigator.clipboard.readText()")
    words = shlex.split(copied["Copy command"])
    assert words[:6] == ["bertscope", "trace", CLEAN, CORRUPTED, "--answers", "are,is"]
    words = shlex.split(copied["Copy its command"])
    assert words[:5] == ["bertscope", "fill", CORRUPTED, "--patch", f"state:4@1={CLEAN}"]
    scope: dict[str, object] = {}
    exec(copied["Copy Python"], scope)
    assert isinstance(scope["found"], bertscope.Trace)
    exec(copied["Copy its Python"], scope)
    assert target in copied["Copy its Python"]
