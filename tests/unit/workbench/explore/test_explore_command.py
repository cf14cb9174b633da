"""`bertscope explore`: wrong uses are refused with a line that says what to do instead."""

import re

import pytest
from bertscope_workbench.command.app import run


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_only_this_machine_may_open_the_page(capsys, host):
    assert run(["explore", "--host", host, "--port", "7000"]) == 2
    assert "ssh -L 7000:127.0.0.1:7000" in capsys.readouterr().err


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
