"""Writes the tree of CONTRIBUTING.md: each package with the first sentence of its own docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.structure.measures import PACKAGES, ROOT

PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- The tree, written by `python -m tools.structure --lower`. -->\n```\n", "```\n<!-- End of the tree. -->"
WIDTH = 33
"""The column in which sentences begin."""

OTHERS = {
    "protos": "The contract, bertscope.v1: the only place where an API change begins.",
    "tests": "unit loads nothing, integration runs a server with tiny models, e2e a process; inside as the packages are.",
    "benchmarks": "",
    "tools": "",
    "docs": "One page for each question; its examples are run by tests/e2e/test_docs.py.",
    "deploy": "Containers, Kubernetes, Helm, Ray, Envoy, Prometheus, Grafana.",
    "examples": "Data for the docs, notebooks, a fine-tuning script, a client in Node.",
}
"""Folders beside the packages: their sentences, or "" where a docstring has it."""


def drawn() -> str:
    """Returns the tree's lines."""
    lines = [f"{'protos/bertscope/v1/':{WIDTH}} {OTHERS['protos']}"]
    for folder in (PACKAGES[name] for name in ("client", "workbench", "service")):
        lines += list(_packages(ROOT / folder))
    for folder, sentence in OTHERS.items():
        if folder != "protos":
            lines.append(f"{folder + '/':{WIDTH}} {sentence or _sentence(ROOT / folder)}")
            lines += [] if sentence else list(_below(ROOT / folder))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _packages(root: Path) -> Iterator[str]:
    """Yields the line of a distribution and those of its packages."""
    yield f"{root.relative_to(ROOT).as_posix() + '/':{WIDTH}} {_sentence(root)}"
    yield from _below(root)


def _below(root: Path) -> Iterator[str]:
    for init in sorted(root.glob("*/__init__.py")):
        yield f"{'  ' + init.parent.name + '/':{WIDTH}} {_sentence(init.parent)}"


def _sentence(package: Path) -> str:
    """Returns the first sentence of a package's docstring, or of the comment that says that it is generated."""
    text = (package / "__init__.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or text.partition("\n")[0].lstrip("# ")
    return " ".join(docstring.partition(".\n")[0].partition(". ")[0].split()).rstrip(".") + "."


def stale() -> list[str]:
    """Returns a line if CONTRIBUTING.md does not have the tree as it is."""
    return (
        []
        if drawn() in PAGE.read_text(encoding="utf-8")
        else [f"{PAGE.name} has an old tree; run `python -m tools.structure --lower`"]
    )


def write() -> None:
    """Writes the tree into CONTRIBUTING.md."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{drawn()}{END}{rest.partition(END)[2]}", encoding="utf-8")
