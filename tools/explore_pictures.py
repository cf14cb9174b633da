"""Draws the pictures of docs/explore.md: each view of `bertscope explore` over the embedded model, light and dark.

`python -m tools.explore_pictures` needs Chromium on PATH, or in $BERTSCOPE_TEST_BROWSER. Look at what it writes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import bertscope
from playwright.sync_api import Page, expect, sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 120
COMMAND = [sys.executable, "-c", "from bertscope_workbench.command.app import main; main()"]


@dataclass(frozen=True)
class Shot:
    """One picture: its name, the fragment of its state, how to wait until it is drawn, and whether the tour begins."""

    name: str
    fragment: str
    ready: Callable[[Page], object]
    width: int = 1440
    tour: bool = False


def looks(tab: Page) -> None:
    """Waits until a head's attention is shown."""
    expect(tab.locator(".looks")).to_contain_text("looks at", timeout=60_000)


def toured(tab: Page) -> None:
    """Waits until the tour speaks of a head."""
    looks(tab)
    tab.get_by_role("button", name="Next").click()
    expect(tab.locator(".tour")).to_contain_text("head 2 of layer 0")


def contexts(tab: Page) -> None:
    """Waits until all contexts are shown, and the grid has its colours."""
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places, in", timeout=60_000)
    expect(tab.get_by_role("gridcell", name="mean 0").first).to_be_visible(timeout=60_000)


def explained(tab: Page) -> None:
    """Waits until the words of the sentence have their exact values."""
    looks(tab)
    expect(tab.locator(".words .status-line")).to_contain_text("exact", timeout=120_000)


def measured(tab: Page) -> None:
    """Measures every head."""
    looks(tab)
    tab.get_by_role("button", name="Measure every head").click()
    expect(tab.locator(".worth .status-line")).to_contain_text("one by one", timeout=120_000)


def compared(tab: Page) -> None:
    """Waits until both maps are shown."""
    expect(tab.locator(".attention-matrix")).to_have_count(2, timeout=60_000)
    expect(tab.locator(".page-footer .status-line")).to_contain_text("compared in", timeout=60_000)


def read_sentences(tab: Page) -> None:
    """Reads sentences with gold words, and edits a copy of one."""
    rows = ("text\tanswer\tabout", *("\t".join(row) for row in ROWS))
    tab.get_by_label("Sentences, or the contents of a file").fill("\n".join(rows))
    tab.get_by_label("Read as").select_option(".tsv")
    tab.get_by_role("button", name="Read").click()
    expect(tab.locator(".sentences-form .status-line")).to_contain_text("rows are read.", timeout=60_000)
    tab.get_by_role("button", name=f"Edit a copy of {ROWS[0][0]}").click()
    tab.get_by_label("Edited sentence").fill("Lyon is the capital of [MASK].")
    tab.get_by_label("Edited sentence").press("Enter")
    expect(tab.locator(".below .change").first).to_be_visible(timeout=60_000)


def layered(tab: Page) -> None:
    """Waits until the words of all layers are shown."""
    expect(tab.get_by_role("gridcell").first).to_be_visible(timeout=60_000)
    expect(tab.locator(".page-footer .status-line")).to_contain_text("tokens", timeout=60_000)


def traced(tab: Page) -> None:
    """Waits until all places are measured, and one is patched."""
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places in", timeout=60_000)
    expect(tab.get_by_label("The model with one place patched")).to_contain_text("%", timeout=60_000)


ROWS = (
    ("Paris is the capital of [MASK].", "france", "capitals"),
    ("Madrid is the capital of [MASK].", "spain", "capitals"),
    ("He put the milk back into the [MASK].", "fridge", "homes"),
    ("She opened the window because it was too [MASK].", "warm", "homes"),
)
CHANGES = "changes=x3-1_x4-10"
SHOTS = (
    Shot("explore-tour", "#explore", toured, tour=True),
    Shot("explore", f"#explore?{CHANGES}&at=4.10", looks),
    Shot("explore-words", "#explore?why=1&over=is", explained),
    Shot("explore-worth", "#explore", measured),
    Shot("explore-compare", f"#compare?{CHANGES}&at=5.8", compared),
    Shot("explore-sentences", "#sentences?at=1.8&sentences_show=next&table_sort=-loss", read_sentences),
    Shot("explore-find", "#find?unit=head:4:9", contexts),
    Shot("explore-layers", "#layers?layersanswer=are", layered),
    Shot("explore-trace", "#trace?traceat=4.1", traced),
)


def main() -> int:
    """Draws all pictures."""
    program = os.environ.get("BERTSCOPE_TEST_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.stderr.write("no browser is here: install chromium, or set BERTSCOPE_TEST_BROWSER to its program\n")
        return 1
    with served() as target, page_of(target) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for scheme in ("light", "dark"):
            for shot in SHOTS:
                context = browser.new_context(
                    viewport={"width": shot.width, "height": 700}, color_scheme=scheme, reduced_motion="reduce"
                )
                if not shot.tour:
                    context.add_init_script("localStorage.setItem('bertscope-tour', 'done')")
                tab = context.new_page()
                tab.goto(address + shot.fragment)
                shot.ready(tab)
                path = FOLDER / f"{shot.name}{'-dark' if scheme == 'dark' else ''}.png"
                tab.screenshot(path=path, full_page=True)
                sys.stdout.write(f"{path.name}\n")
                context.close()
        browser.close()
    return 0


@contextmanager
def served() -> Iterator[str]:
    """Runs a server with the embedded model and a copy of its first three layers, and yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        ports = Path(folder, "ports.json")
        command = [sys.executable, "-m", "bertscope_service", "--port", "0", "--metrics-port", "0", "--runtime", "torch"]
        with subprocess.Popen([*command, "--log-level", "warning", "--port-file", str(ports)]) as process:
            try:
                until = time.monotonic() + START_SECONDS
                while not ports.exists():
                    if process.poll() is not None or time.monotonic() > until:
                        raise RuntimeError("the server did not start")
                    time.sleep(0.05)
                target = f"127.0.0.1:{json.loads(ports.read_text())['port']}"
                with bertscope.Client(target) as client:
                    client.wait_until_serving(START_SECONDS)
                    client.compress_model("three-layers", bertscope.keep_layers([0, 1, 2]))
                yield target
            finally:
                process.terminate()


@contextmanager
def page_of(target: str) -> Iterator[str]:
    """Runs `bertscope explore`, and yields the page's address."""
    command = [*COMMAND, "explore", "--target", target, "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            if process.stdout is None:
                raise RuntimeError("the page has no output")
            yield next(line.strip() for line in process.stdout if line.startswith("http"))
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
