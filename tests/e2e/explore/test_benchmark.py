"""The Benchmark view in a real browser."""

import re
from collections.abc import Callable

import bertscope
import pytest
from playwright.sync_api import expect

from tests.support.browsing import Watched
from tests.support.page import Page
from tests.support.patience import granted
from tests.support.process import Process

pytestmark = pytest.mark.slow


def test_a_model_and_its_half(visit: Callable[..., Watched], launch: Callable[..., Process]) -> None:
    server = launch()
    server.wait_until_serving()
    with bertscope.Client(server.target) as client:
        client.compress_model("half", bertscope.keep_layers([0, 1, 2]))
    with Page(server.target) as page:
        tab = visit("#benchmark?bench_length=8", of=page).tab
        expect(tab.get_by_role("checkbox", name=re.compile("half"))).to_be_checked()
        tab.get_by_label("Sentences with a mask").fill("Paris is the capital of [MASK].")
        tab.get_by_role("button", name="Measure").click()
        row = tab.get_by_role("row").filter(has_text="half")
        expect(row).to_contain_text(re.compile(r"\d\.\d\d× \[\d\.\d\d, \d\.\d\d\]"), timeout=granted(60_000))
        expect(tab.get_by_role("row").filter(has_text="baseline")).to_contain_text("bertscope-mini")
        expect(row.get_by_role("cell").last).to_contain_text(re.compile(r"^(0.0|100.0)\s%$"))
        expect(tab.locator(".ratio-drawing .point")).to_have_count(1)
        tab.get_by_role("link", name="Models").click()
        tab.get_by_role("link", name="Benchmark").click()
        expect(row).to_contain_text("×")  # The result outlives a look at another view.
        tab.get_by_label("Seconds for each").select_option("20")
        tab.get_by_role("button", name="Measure").click()
        expect(tab.locator(".benchmark-form .status-line")).to_contain_text(re.compile(r"\d %"))
        tab.get_by_role("button", name="Stop").click()
        expect(tab.locator(".benchmark-form .status-line")).to_have_text("Stopped.")
