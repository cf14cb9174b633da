"""What the page says of itself is about what is there: regions that have help, numbers that have a meaning."""

import re
from importlib import resources

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
