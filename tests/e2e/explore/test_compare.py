"""The Compare view in a real browser."""

import re
from collections.abc import Callable

import bertscope
import pytest
from playwright.sync_api import expect

from tests.support.browsing import Watched, named

pytestmark = pytest.mark.slow

TEXT = "The keys to the cabinet [MASK] on the table."


def test_a_model_and_itself_changed(visit: Callable[..., Watched], client: bertscope.Client) -> None:
    tab = visit("#explore?changes=x3-1_x4-10").tab
    tab.get_by_role("link", name="Compare").click()  # The changes come along.
    both = client.inspect(
        TEXT, top_k=8, interventions=[bertscope.zero(3, [1]), bertscope.zero(4, [10])], compare_untouched=True
    )
    apart = client.compare_attention(TEXT, interventions=[bertscope.zero(3, [1]), bertscope.zero(4, [10])]).divergence.mean()
    one, two = both.untouched_masks[0].predictions[0].token, both.masks[0].predictions[0].token
    expect(tab.locator(".headline")).to_contain_text(f"bertscope-mini writes {one}, bertscope-mini changed {two}.")
    probabilities = {entry.token: entry.probability for entry in both.masks[0].predictions}
    before = {entry.token: entry.probability for entry in both.untouched_masks[0].predictions}
    expect(tab.locator(".pair-bars li").filter(has_text=two).first).to_contain_text(
        f"{before[two] * 100:.1f} % · {probabilities[two] * 100:.1f} %"
    )
    cell = tab.get_by_role("gridcell", name=re.compile(r"^layer 2 head 8,"))
    expect(cell).to_have_accessible_name(named(f"layer 2 head 8, {float(f'{apart[2, 8]:.2g}'):g} nats apart"))
    cell.click()
    expect(tab.get_by_role("heading", name="Both maps of layer 2, head 8")).to_be_visible()
    expect(tab.locator(".attention-matrix")).to_have_count(2)
    for chip in ("3:1", "4:10"):
        tab.get_by_role("button", name=f"Take back: {chip}").click()
    expect(tab.locator(".page-footer .status-line")).to_contain_text("This is the only model")


def test_one_model_alone_says_what_can_be_compared(visit: Callable[..., Watched]) -> None:
    tab = visit("#compare").tab
    expect(tab.locator(".attention-matrix")).to_have_count(2)
    expect(tab.get_by_text("Both sides are the same model, unchanged.")).to_be_visible()
    expect(tab.locator(".page-footer .status-line")).to_contain_text("This is the only model: load another one, under Models")
    assert "other_model" not in tab.locator("body").inner_text()
