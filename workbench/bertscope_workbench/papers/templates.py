"""Renders pages of HTML from templates of this package."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def page_templates(folder: str) -> Environment:
    """Returns the templates of a folder of this package: texts are escaped, and control characters left out."""
    return Environment(
        loader=PackageLoader("bertscope_workbench", folder),
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
