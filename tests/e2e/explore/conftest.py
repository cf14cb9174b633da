"""Fixtures: the page of the embedded model, and a real browser."""

from collections.abc import Callable, Iterator

import bertscope
import pytest
from playwright.sync_api import Browser

from tests.support.browsing import Watched, launched_browser
from tests.support.page import Page


@pytest.fixture(scope="module")
def client(target: str) -> Iterator[bertscope.Client]:
    with bertscope.Client(target) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for one module: while it runs, its event loop lets no other begin in this thread."""
    with launched_browser() as running:
        yield running


@pytest.fixture(scope="module")
def page(target: str) -> Iterator[Page]:
    """The page over the server with the embedded model."""
    with Page(target) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, page: Page) -> Iterator[Callable[..., Watched]]:
    """Opens the page at a fragment; at the end of the test, whatever went wrong in the browser fails it."""
    visited: list[Watched] = []

    def open_page(
        fragment: str = "",
        *,
        of: Page = page,
        key: bool = True,
        width: int = 1440,
        height: int = 900,
        tour: bool = False,
        **options: object,
    ) -> Watched:
        """`tour`: as who has never seen the page, so that the tour begins."""
        context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce", **options)
        if not tour:
            context.add_init_script("localStorage.setItem('bertscope-tour', 'done')")
        watched = Watched(context, of.host)
        watched.tab.goto((of.address if key else f"http://{of.host}/") + fragment)
        visited.append(watched)
        return watched

    yield open_page
    for watched in visited:
        watched.tab.context.close()
        watched.check()
