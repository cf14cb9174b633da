"""The Sentences view in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path

import bertscope
import pytest
from playwright.sync_api import expect

from tests.support.browsing import Watched

pytestmark = pytest.mark.slow

TEXTS = [
    "Paris is the capital of [MASK].",
    "The cat sat on the mat.",
    "<img src=x onerror=window.hurt=1>",
    "He gave her a book.",
]


def test_heads_over_sentences(visit: Callable[..., Watched], target: str, tmp_path: Path) -> None:
    tab = visit("#sentences?at=1.8&sentences_show=previous").tab
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(TEXTS))
    tab.get_by_label("A file of sentences").set_input_files(path)
    expect(tab.locator(".sentences-form .status-line")).to_have_text("4 of 4 sentences are read.")
    with bertscope.Client(target) as client:
        found = client.describe_attention(TEXTS).mean("previous")
        ordered = sorted(TEXTS, key=lambda text: -client.describe_attention([text]).mean("previous")[1, 8])
        best = client.fill_mask(TEXTS[0])[0].masks[0].predictions[0].token
    cell = tab.get_by_role("gridcell", name=re.compile("^layer 1 head 8,"))
    expect(cell).to_have_accessible_name(f"layer 1 head 8, {float(f'{found[1, 8]:.3g}'):g}")
    assert [link.inner_text() for link in tab.locator(".sentences-panels ol a").all()] == ordered
    expect(tab.get_by_role("row").filter(has_text="capital of")).to_contain_text(best)
    assert tab.locator(".pattern-bars rect").count() > 6
    assert tab.evaluate("window.hurt") is None
    tab.get_by_role("gridcell", name=re.compile("^layer 0 head 2,")).click()
    expect(tab.get_by_role("heading", name="Where layer 0, head 2 does it most")).to_be_visible()
    tab.get_by_role("link", name="The cat sat on the mat.").click()
    expect(tab.locator(".sentence textarea")).to_have_value("The cat sat on the mat.")
    expect(tab.get_by_role("heading", name="Layer 0, head 2")).to_be_visible()
