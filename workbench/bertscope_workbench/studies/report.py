"""Holds a study: its sections, each with its question, its numbers and its gaps."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bertscope.values.display import record


@record
class Question:
    """One question of a paper."""

    number: str
    """The paper's section: "4.1"."""
    title: str
    """A few words."""
    asked: str
    """The question."""
    definition: str
    """The computed numbers, and where they are defined."""
    paper: str
    """The finding of the paper, with its model and data."""


@record
class Paper:
    """A paper that a study redoes."""

    title: str
    """The study's title."""
    source: str
    """Authors, year and title."""
    questions: Mapping[str, Question]
    """Its questions by their names in the study."""


@record
class Table:
    """Rows of text; the name of a column of numbers ends with "#"."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A drawing as SVG."""

    caption: str
    svg: bytes

    def __repr__(self) -> str:
        return f"<Picture: {self.caption}>"


@record(frozen=False)
class Section:
    """The answer to one question."""

    question: Question
    """The question."""
    commands: list[str] = field(default_factory=list)
    """Commands that ask it alone."""
    methods: list[str] = field(default_factory=list)
    """Methods of `Client` that the numbers come from."""
    files: list[str] = field(default_factory=list)
    """The data, with their counts."""
    found: list[str] = field(default_factory=list)
    """Sentences with the main numbers."""
    parts: list[Table | Picture] = field(default_factory=list)
    """Tables and pictures in their order."""
    left_out: list[str] = field(default_factory=list)
    """The missing parts, each with the reason."""

    @property
    def empty(self) -> bool:
        """True if nothing was measured."""
        return not self.parts


@record
class Study:
    """A whole study."""

    title: str
    """Its title."""
    source: str
    """The paper."""
    facts: Sequence[tuple[str, str]]
    """The model that ran, its weights, its runtime."""
    sections: Sequence[Section]
    """A section for each question of the paper, in its order."""
    unused: Sequence[tuple[str, str]]
    """Files that served no section, and why."""


class LeftOut(Exception):
    """A section, or a part of one, can't be measured; the message says why."""


def read_paper(study: str) -> Paper:
    """Returns the paper of a study that asks questions of its own; its file is questions/STUDY.toml. A question without a
    definition has that of the one before it."""
    file = importlib.resources.files("bertscope_workbench.studies").joinpath("questions", f"{study}.toml")
    values = tomllib.loads(file.read_text("utf-8"))
    questions, definition = dict[str, Question](), ""
    for asked in values["question"]:
        name, definition = asked.pop("name"), asked.pop("definition", definition)
        questions[name] = Question(definition=definition, **asked)
    return Paper(values["title"], values["paper"], questions)
