"""Writes a study as one HTML page that loads nothing: pictures are in it, scripts are not."""

from __future__ import annotations

import base64
import html
import importlib.resources
from collections.abc import Iterable

from bertscope_workbench.studies.report import Picture, Section, Study, Table

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Browsers load nothing for a page with this policy, and run nothing."""


def study_page(study: Study, *, dark: bool = False) -> str:
    """Returns the page; `dark` for pictures that were drawn on a dark page."""
    style = importlib.resources.files("bertscope_workbench.studies").joinpath("page.css").read_text("utf-8")
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in study.facts)
    contents = "".join(
        f'<li><a href="#s{_text(section.question.number)}">{_text(section.question.number)} '
        f"{_text(section.question.title)}</a>{' (left out)' if section.empty else ''}</li>"
        for section in study.sections
    )
    unused = _listed("files that served no section", (f"{path}: {why}" for path, why in study.unused), "missing")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(study.title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f'<body class="{"dark" if dark else "light"}">\n<main>\n<h1>{_text(study.title)}</h1>\n<p>{_text(study.source)}</p>\n'
        f"<dl>{facts}</dl>\n<ul>{contents}</ul>\n"
        + "".join(map(_section, study.sections))
        + unused
        + "</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    asked = section.question
    return (
        f'<section id="s{_text(asked.number)}">\n<h2>{_text(asked.number)} {_text(asked.title)}</h2>\n'
        f'<p class="asked">{_text(asked.asked)}</p>\n<dl>\n<dt>definition</dt><dd>{_text(asked.definition)}</dd>\n'
        f"<dt>method</dt><dd>{', '.join(f'<code>Client.{_text(name)}</code>' for name in section.methods)}</dd>\n"
        f"<dt>in the paper</dt><dd>{_text(asked.paper)}</dd>\n</dl>\n"
        + (f"<pre>{_text(chr(10).join(section.commands))}</pre>\n" if section.commands else "")
        + _listed("data", section.files)
        + (
            '<p class="missing"><strong>Left out.</strong> Nothing was measured for this section.</p>\n'
            if section.empty
            else ""
        )
        + _listed("found", section.found)
        + "".join(_table(part) if isinstance(part, Table) else _picture(part) for part in section.parts)
        + _listed("left out", section.left_out, "missing")
        + "</section>\n"
    )


def _table(table: Table) -> str:
    numeric = [column.endswith("#") for column in table.columns]
    head = "".join(
        f"<th{_right(right)}>{_text(name.removesuffix('#'))}</th>" for name, right in zip(table.columns, numeric, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(f'<td{_right(right)}>{_text(cell)}</td>' for cell, right in zip(row, numeric, strict=True))}</tr>\n"
        for row in table.rows
    )
    caption = f"<caption>{_text(table.caption)}</caption>"
    return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'


def _right(right: bool) -> str:
    return ' class="number"' if right else ""


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.svg).decode("ascii")
    caption = _text(picture.caption)
    image = f'<img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>\n"


def _listed(title: str, lines: Iterable[str], kind: str = "") -> str:
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f'<div class="list {kind}"><h3>{_text(title)}</h3><ul>{items}</ul></div>\n' if items else ""


def _text(text: str) -> str:
    """Returns a text that is no markup; control characters, which HTML does not allow, are replaced."""
    return html.escape("".join(char if char.isprintable() or char == "\n" else "�" for char in text))
