"""What the page's scripts hold: texts as text nodes, help for regions that there are, a meaning for each number."""

import re
from importlib import resources


def test_no_text_becomes_html():
    """Every text of the page is a text node."""
    from bertscope_workbench.explore.app import STATIC

    scripts = [
        path for folder in ("js", "js/views", "js/parts") for path in (STATIC / folder).iterdir() if path.name.endswith(".js")
    ]
    assert len(scripts) > 8
    for path in scripts:
        found = re.search(
            r"innerHTML|outerHTML\s*=[^=]|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser", path.read_text()
        )
        assert not found, (path.name, found)


SCRIPTS = resources.files("bertscope_workbench.explore") / "static" / "js"


def sources() -> str:
    """All scripts of the views and their parts, one after another."""
    folders = (SCRIPTS / "views", SCRIPTS / "parts")
    return "\n".join(path.read_text() for folder in folders for path in sorted(folder.iterdir()))


def helped() -> dict[str, list[str]]:
    """The regions that the help names, by view."""
    found: dict[str, list[str]] = {}
    for line in (SCRIPTS / "help.js").read_text().partition("export const HELP = {")[2].partition("\n};")[0].splitlines():
        if view := re.match(r"  (\w+): \{", line):
            found[view[1]] = []
        elif region := re.match(r'    (?:"([^"]+)"|(\w+)): (?:\{|\w+,)', line):
            found[[*found][-1]].append(region[1] or region[2])
    return found


def test_every_view_has_help_and_every_region_of_it_is_there():
    views = re.findall(r"^  (\w+): \{title", (SCRIPTS / "views" / "index.js").read_text(), re.MULTILINE)
    assert [*helped()] == views
    labels = re.findall(r'"aria-label": "([^"]+)"', sources())
    for regions in helped().values():
        assert set(regions) <= set(labels)


def test_every_number_that_is_shown_has_a_meaning():
    text = (SCRIPTS / "numbers.js").read_text()
    known = re.findall(r"^  (\w+): known\(", text, re.MULTILINE)
    assert len(known) == len(set(known))
    shown = re.findall(r'means\("(\w+)"', sources()) + re.findall(r'key: "(\w+)", name', sources())
    for columns in re.findall(r"const MEANT = \[(.*?)\]", sources()):
        shown += re.findall(r'"(\w+)"', columns)
    assert set(shown) <= set(known)
    assert len(set(shown)) > 20
