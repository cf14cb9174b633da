"""A browser that reaches this machine only, and pages in it that fail a test on any error."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from playwright.sync_api import Page as Tab

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


def browser_path() -> str:
    """Returns the browser's program: $BERTSCOPE_TEST_BROWSER, else a Chromium on PATH. Skips the test where there is none."""
    found = os.environ.get("BERTSCOPE_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no browser is here: install chromium, or set BERTSCOPE_TEST_BROWSER to its program")
    return found


@contextmanager
def launched_browser() -> Iterator[Browser]:
    """Yields a running browser."""
    path = browser_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def named(start: str) -> re.Pattern[str]:
    """Returns a pattern of the name of a head that begins so, and may go on with what the head does."""
    return re.compile("^" + r"\s".join(map(re.escape, start.split())) + "(,|$)")


class Watched:
    """A tab, and what went wrong in it: console errors, exceptions of scripts, requests to other hosts."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Parts of problems that the test causes on purpose."""
        self.tab: Tab = context.new_page()
        self.tab.set_default_timeout(30_000)
        self.tab.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.tab.on("console", lambda message: message.type == "error" and self.problems.append(f"console: {message.text}"))
        self.tab.on("request", lambda request: self._look(request.url, host))

    def _look(self, url: str, host: str) -> None:
        if not url.startswith((f"http://{host}/", "data:", "blob:")):
            self.problems.append(f"request to another host: {url}")

    def check(self) -> None:
        """Fails if something went wrong that the test did not expect."""
        found = [problem for problem in self.problems if not any(part in problem for part in self.expected)]
        assert not found, found
