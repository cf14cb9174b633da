"""`bertscope explore`: wrong uses are refused with a line that says what to do instead."""

import re


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
