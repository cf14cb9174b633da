"""Measures the page of `bertscope explore` in a real browser: from a click on a head to changed predictions, and to everything,
on an idle server and beside a sweep; bytes that travel for each.

`python -m benchmarks explore`: needs Chromium ($BERTSCOPE_TEST_BROWSER, or on PATH). Each click silences another head of the
embedded model, at 9 and at 83 tokens; times are taken in the page, from the click to the frame after the change.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright
from rich.console import Console
from rich.table import Table

from benchmarks.lib.measure import machine
from benchmarks.lib.serving import serving

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
SHORT = "Paris is the capital of [MASK]."
LONG = (
    "The committee that had been appointed by the council to examine the state of the old bridges over the river reported last "
    "week that most of them were in need of repair, that three would have to be closed before the winter, and that the money "
    "which had been set aside for the work would not be enough unless the government agreed to pay for at least half of the "
    "new [MASK] that the engineers had asked for."
)
GOALS = {SHORT: (50, 120), LONG: (100, 200)}
"""Milliseconds until predictions, and until everything."""
CLICK = """
async ([row, column]) => {
  const bars = () => document.querySelector(".bars").textContent;
  const cell = document.querySelector(`.head[data-row="${row}"][data-column="${column}"]`);
  const before = bars();
  performance.clearResourceTimings();
  // Told of changes instead of asking in each frame: frames that nobody needs would take the server's processor.
  const told = (selector, changed) => new Promise((resolve, reject) => {
    const watcher = new MutationObserver(() => {
      if (!changed()) return;
      watcher.disconnect();
      requestAnimationFrame(() => resolve(performance.now()));
    });
    watcher.observe(document.querySelector(selector), {childList: true, characterData: true, subtree: true});
    setTimeout(() => reject(new Error("nothing changed within 20 s")), 20000);
  });
  const words = told(".predictions", () => bars() !== before);
  const everything = told(".page-footer .status-line", () => true);
  const began = performance.now();
  cell.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, button: 0, buttons: 1, clientX: 0, clientY: 0}));
  window.dispatchEvent(new PointerEvent("pointerup"));
  const [predictions, all] = (await Promise.all([words, everything])).map(each => each - began);
  const sent = () => performance.getEntriesByType("resource").filter(each => each.name.endsWith("/api/inspect"));
  for (let frame = 0; frame < 60 && !sent().length; frame++) await new Promise(requestAnimationFrame);
  const bytes = sent().reduce((sum, each) => sum + each.encodedBodySize, 0);
  return {predictions, all, bytes};
}
"""


def main(arguments: list[str]) -> int:
    """Runs the measurement and prints it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks explore", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="clicks of each kind (15)")
    parser.add_argument("--runtime", default="auto", choices=("torch", "onnx", "auto"), help="the server's (auto)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    program = os.environ.get("BERTSCOPE_TEST_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        parser.error("no browser is here: install chromium, or set BERTSCOPE_TEST_BROWSER to its program")
    with serving("--runtime", options.runtime) as server, page_of(server.target) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        rows = [row for text in GOALS for row in measured(browser, address, text, options.rounds)]
        browser.close()
    if options.json:
        print(json.dumps({"machine": machine(), "rows": rows}, indent=2))
    else:
        print_rows(rows, options.rounds)
    return 0


@contextmanager
def page_of(target: str) -> Iterator[str]:
    """Runs `bertscope explore`, and yields the page's address."""
    command = [
        sys.executable,
        "-c",
        "from bertscope_workbench.command.app import main; main()",
        "explore",
        "--target",
        target,
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}) as process:
        try:
            assert process.stdout is not None
            yield next(line.strip() for line in process.stdout if line.startswith("http"))
        finally:
            process.terminate()


def measured(browser: Any, address: str, text: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Yields the times of clicks on an idle server and beside a sweep, in turn by halves of the rounds, so that both meet the
    same noise."""
    with opened(browser, address, text) as tab, opened(browser, address, SHORT) as other:
        tokens = int(tab.locator(".page-footer .status-line").inner_text().split()[0])
        found: dict[str, list[dict[str, float]]] = {"idle": [], "+ sweep": []}
        clicks = iter((1 + number // 12 % 6, 1 + number % 12) for number in range(10_000))
        tab.evaluate(CLICK, next(clicks))
        for _ in range(2):
            found["idle"] += [tab.evaluate(CLICK, next(clicks)) for _ in range((rounds + 1) // 2)]
            begin_sweep(other)
            found["+ sweep"] += [tab.evaluate(CLICK, next(clicks)) for _ in range((rounds + 1) // 2)]
            if other.get_by_role("button", name="Stop").count() == 0:
                raise RuntimeError("the sweep ended before the clicks did")
            other.get_by_role("button", name="Stop").click()
        for name, clicked in found.items():
            medians = {key: statistics.median(one[key] for one in clicked) for key in clicked[0]}
            slowest = {f"slowest_{key}": max(one[key] for one in clicked) for key in ("predictions", "all")}
            yield {"tokens": tokens, "server": name, "goals": GOALS[text], **medians, **slowest}


@contextmanager
def opened(browser: Any, address: str, text: str) -> Iterator[Page]:
    """Yields a tab with the Explore view of a text, and the brush that silences."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    tab.goto(f"{address}#explore?brush=x")
    tab.locator(".sentence textarea").fill(text)
    tab.locator(".bars li").first.wait_for()
    expect(tab.locator(".page-footer .status-line")).to_contain_text("updated", timeout=60_000)
    tab.wait_for_load_state("networkidle")
    yield tab
    context.close()


def begin_sweep(tab: Page) -> None:
    """Begins to measure every head over many sentences, and returns when effects come in."""
    lines = "\n".join(f"The {number}th visitor of the museum was very [MASK] about it today." for number in range(400))
    tab.locator(".worth details").evaluate("details => { details.open = true; }")
    tab.get_by_label("Further sentences").fill(lines)
    tab.get_by_role("button", name="Measure every head").click()
    expect(tab.locator(".worth progress")).not_to_have_js_property("value", 0, timeout=120_000)


def print_rows(rows: list[dict[str, Any]], rounds: int) -> None:
    """Prints a line for each kind of click."""
    table = Table(title="From a click on a head to changed predictions, and to everything", title_justify="left")
    for column in ("tokens", "server", "words", "goal", "all", "goal", "worst", "/ idle", "bytes"):
        table.add_column(column, no_wrap=True, justify="left" if column == "server" else "right")
    idle: dict[int, float] = {}
    for row in rows:
        idle.setdefault(row["tokens"], row["all"])
        first, whole = row["goals"]
        table.add_row(
            str(row["tokens"]),
            row["server"],
            f"{row['predictions']:.0f} ms",
            f"{first} ms",
            f"{row['all']:.0f} ms",
            f"{whole} ms",
            f"{row['slowest_all']:.0f} ms",
            f"{row['all'] / idle[row['tokens']]:.2f}",
            f"{row['bytes'] / 1000:.0f} kB",
        )
    console = Console(width=100)
    console.print(table)
    console.print("words: until the predictions have changed; all: maps, distances, the chosen head; bytes: to the page")
    console.print(f"medians of {rounds} clicks; browser, page and server share the machine: {machine()}", soft_wrap=True)
