"""Names the papers of what a command computes: a sentence and keys for each command, and the papers as BibTeX.

Papers are in references.bib, once each; methods.toml says which ones define what each command computes.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from bertscope.errors import invalid_argument
from bertscope.values.display import record

BERTSCOPE = "bertscope"
"""The key of this software."""
ENTRY = re.compile(r"^@\w+\{([^,]+),$")
RELEASE = re.compile(r"^(version|date-released): *\"?([^\"\s]+)", re.MULTILINE)
"""The release in CITATION.cff."""
FIELD = re.compile(r"^  (\w+) = \{(.*)\},$")
LETTERS = {r"{\"a}": "ä", r"{\"o}": "ö", r"{\"u}": "ü", r"{\c c}": "ç", r"{\~n}": "ñ"}


@record
class Method:
    """The number of a command, and its papers."""

    number: str
    """A sentence about the number."""
    papers: tuple[str, ...]
    """The keys of the papers that define it."""

    def document(self) -> dict[str, Any]:
        """Returns it in JSON types, with the papers as BibTeX."""
        return {"number": self.number, "papers": list(self.papers), "bibtex": papers_as(self.papers, "bibtex")}


@cache
def bibliography() -> Mapping[str, str]:
    """Returns the papers and this software as BibTeX, by their keys."""
    release = {found[1]: found[2] for found in RELEASE.finditer(_citation_file())}
    software = (
        f"@software{{{BERTSCOPE},\n  author = {{{{The bertscope maintainers}}}},\n"
        f"  title = {{bertscope: {{BERT}}ology as a Service}},\n  version = {{{release['version']}}},\n"
        f"  year = {{{release['date-released'][:4]}}},\n}}\n"
    )
    entries = [*files(__name__).joinpath("references.bib").read_text("utf-8").split("\n\n"), software]
    return {_key(entry): entry.strip() + "\n" for entry in entries}


@cache
def methods() -> Mapping[str, Mapping[str, Method]]:
    """Returns what commands compute: for each a method by the name of the option that asks for it, "" without one."""
    known = tomllib.loads(files(__name__).joinpath("methods.toml").read_text("utf-8"))
    return {
        command: {
            "": Method(values["number"], tuple(values["papers"])),
            **{name: Method(each["number"], tuple(each["papers"])) for name, each in values.items() if isinstance(each, dict)},
        }
        for command, values in known.items()
    }


def method_of(command: str, options: Iterable[str] = ()) -> Method | None:
    """Returns what a command computes with these of its options; None if it computes no number."""
    kinds = methods().get(command, {})
    return next((kinds[name] for name in options if name in kinds), kinds.get(""))


def method_of_commands(lines: Iterable[str], *first: str) -> tuple[Method, ...]:
    """Returns what commands compute that are written as lines, "bertscope relations trees FILE", after those of the names
    `first`."""
    commands = (words[1:] for words in map(str.split, lines) if len(words) > 1 and words[0] == BERTSCOPE)
    asked = [*([name] for name in first), *commands]
    found = (method_of(name, (option.removeprefix("--") for option in options)) for name, *options in asked)
    return tuple(dict.fromkeys(method for method in found if method is not None))


def papers_as(keys: Iterable[str], form: str) -> str:
    """Returns papers as "bibtex", or as "text", a line each. Raises InvalidArgument for an unknown key."""
    known = bibliography()
    keys = [*keys]
    for key in keys:
        if key not in known:
            raise invalid_argument("keys", f"names {key!r}, which is not in references.bib")
    return "\n".join(known[key] if form == "bibtex" else citation(known[key]) + "\n" for key in keys).strip()


def citation(entry: str) -> str:
    """Returns an entry of BibTeX as a line: authors, year, title, place."""
    values = {found[1]: found[2] for found in map(FIELD.match, entry.splitlines()) if found}
    place = values.get("booktitle") or values.get("journal") or values.get("howpublished") or values.get("publisher", "")
    if values.get("volume"):
        place += f" {values['volume']}" + (f"({values['number']})" if "number" in values else "")
    place += f", {values['pages']}" if "pages" in values else ""
    year = values["year"] + (f", version {values['version']}" if "version" in values else "")
    authors = values["author"].replace(" and others", " et al.").replace(" and ", "; ")
    line = f"{authors} ({year}). {values['title']}. {place}".strip()
    for written, letter in LETTERS.items():
        line = line.replace(written, letter)
    return line.replace("?. ", "? ").replace("--", "-").replace("{", "").replace("}", "").removesuffix(".") + "."


def _citation_file() -> str:
    """Returns CITATION.cff, which a distribution has here and the repository has at its root."""
    packed = files(__name__).joinpath("CITATION.cff")
    return (packed if packed.is_file() else Path(__file__).parents[3] / "CITATION.cff").read_text("utf-8")


def _key(entry: str) -> str:
    found = ENTRY.match(entry.strip().splitlines()[0])
    if found is None:
        raise ValueError(f"an entry of references.bib has no key: {entry!r}")
    return found[1]
