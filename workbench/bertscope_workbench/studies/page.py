"""Writes a study as one HTML page that loads nothing: pictures are in it, scripts are not."""

from __future__ import annotations

import base64
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from bertscope_workbench.references import method_of_commands, papers_as
from bertscope_workbench.studies.report import Study


def study_page(study: Study, *, dark: bool = False) -> str:
    """Returns the page; `dark` for pictures that were drawn on a dark page."""
    pages = page_templates("studies")
    pages.filters["base64"] = lambda data: base64.b64encode(data).decode("ascii")
    unused = [f"{path}: {why}" for path, why in study.unused]
    methods = method_of_commands(command for section in study.sections for command in section.commands)
    papers = papers_as(dict.fromkeys(paper for method in methods for paper in method.papers), "bibtex")
    return pages.get_template("page.html").render(study=study, dark=dark, unused=unused, papers=papers)


def page_templates(*folders: str) -> Environment:
    """Returns the templates of folders of this package, the first ones first: texts are escaped, and control characters left
    out."""
    return Environment(
        loader=ChoiceLoader([PackageLoader("bertscope_workbench", folder) for folder in folders]),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printable(value: Any) -> Any:
    """Returns a text without control characters, which HTML does not allow; another value as it is."""
    if type(value) is not str:  # The markup of a macro has been through here.
        return value
    return "".join(char if char.isprintable() or char in "\n\N{NO-BREAK SPACE}" else "�" for char in value)
