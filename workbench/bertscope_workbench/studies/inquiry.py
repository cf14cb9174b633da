"""Asks the questions of a study: the client, the models, and how far each question is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bertscope import (
    BertscopeError,
    Client,
    FailedPrecondition,
    FeatureScores,
    InvalidArgument,
    Model,
    RelationScores,
    TextsProgress,
    Unimplemented,
)
from bertscope.values.display import record
from bertscope.values.models import short_name

from bertscope_workbench.plots.figures import svg_bytes
from bertscope_workbench.plots.theme import Theme, theme_of
from bertscope_workbench.studies.data import StudyData
from bertscope_workbench.studies.report import LeftOut, Picture, Question, Section, Study, read_paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = TypeVar("Result")

OnStage = Callable[[str, int, int | None], object]
"""Hears what is asked, how much of it is done, and of how much; None if that is not known yet."""


@dataclass
class Rejected:
    """Texts that the server can't read."""

    count: int = 0
    first: str = ""

    def __call__(self, index: int, error: BertscopeError) -> None:
        """Notes one: an `on_rejected`."""
        self.count += 1
        self.first = self.first or error.message

    def lines(self, what: str = "texts") -> list[str]:
        """Returns a line, unless there is none."""
        return [f"{self.count} {what} that the server did not take; the first: {self.first}"] if self.count else []


@record(frozen=False)
class Inquiry:
    """The questions of a study to one server. Answers that several sections need are asked for once."""

    client: Client
    """The client."""
    data: StudyData
    """The data."""
    model: Model
    """The model."""
    fine_tuned: Model | None
    """Its fine-tuned copy."""
    dark: bool
    """True to draw on a dark page."""
    timeout: float | None
    """Seconds that an answer may take; the client's unless given."""
    on_stage: OnStage | None
    """Hears of progress."""
    gains: dict[str, dict[Path, float]] = field(default_factory=dict)
    """By model and file of labelled texts: the accuracy above that of the commonest label."""
    _relations: RelationScores | None = None
    _features: dict[str, tuple[FeatureScores, Rejected]] = field(default_factory=dict)

    def dependencies(self) -> RelationScores:
        """Returns the scores of the treebank's dependencies. Raises LeftOut without a treebank."""
        if self.data.treebank is None:
            raise LeftOut("no treebank (.conllu) is in the folder")
        if self._relations is None:
            arguments = self.arguments("dependencies", Rejected())
            self._relations = self.client.score_relations(self.data.dependencies, model=self.model, **arguments)
        return self._relations

    def features(self, model: Model) -> tuple[FeatureScores, Rejected]:
        """Returns the scores of the treebank's features, and the texts left out. Raises LeftOut without a treebank."""
        if self.data.treebank is None:
            raise LeftOut("no treebank (.conllu) is in the folder")
        if model.name not in self._features:
            rejected = Rejected()
            arguments = self.arguments(f"features, {short_name(model)}", rejected)
            self._features[model.name] = (
                self.client.score_features(self.data.features, model=model, **arguments),
                rejected,
            )
        return self._features[model.name]

    def many(
        self,
        section: Section,
        stage: str,
        ask: Callable[..., Result],
        *given: Any,
        what: str = "texts",
        **options: Any,
    ) -> Result:
        """Asks the model about many texts by a method of `Client`. The section says which of them were left out."""
        rejected = Rejected()
        found = ask(*given, model=self.model, **options, **self.arguments(stage, rejected))
        section.left_out += rejected.lines(what)
        return found

    def arguments(self, stage: str, rejected: Rejected) -> dict[str, Any]:
        """Returns the arguments that every method of many texts takes."""

        def show(progress: TextsProgress) -> None:
            self.show(stage, progress.done, progress.total)

        self.show(stage, 0, None)
        return {"on_progress": show, "on_rejected": rejected, "timeout": self.timeout}

    def show(self, stage: str, done: int, total: int | None) -> None:
        """Tells how far a stage is."""
        if self.on_stage is not None:
            self.on_stage(stage, done, total)

    def command(self, *words: str, path: Path | None = None, limited: bool = True) -> str:
        """Returns a command of the shell that asks for a file's texts."""
        given = [*words, *([str(path)] if path else [])]
        if limited and self.data.limit is not None:
            given += ["--limit", str(self.data.limit)]
        return shlex.join(["bertscope", *given, "--model", short_name(self.model)])

    @property
    def theme(self) -> Theme:
        """The colours of pictures."""
        return theme_of({"dark": self.dark})

    def draw(self, section: Section, figure: Figure, caption: str) -> None:
        """Adds a figure to a section."""
        section.parts.append(Picture(caption, svg_bytes(figure)))


def answered_study(
    inquiry: Inquiry,
    name: str,
    asks: Mapping[str, Callable[[Inquiry, Section], None]],
    facts: Sequence[tuple[str, str]],
    unused: Sequence[tuple[str, str]] = (),
) -> Study:
    """Returns the study with a section for each question of its paper; `asks` fill them in, by the questions' names."""
    paper = read_paper(name)
    sections = [_answered(inquiry, paper.questions[question], ask) for question, ask in asks.items()]
    return Study(paper.title, paper.source, facts, sections, unused)


def _answered(inquiry: Inquiry, question: Question, ask: Callable[[Inquiry, Section], None]) -> Section:
    """Returns the section; what can't be measured of it is left out, with the reason."""
    section = Section(question)
    try:
        ask(inquiry, section)
    except LeftOut as why:
        section.left_out.append(str(why))
    except (FailedPrecondition, InvalidArgument, Unimplemented) as error:
        section.left_out.append(f"the rest; the server's reason: {error}" if section.parts else f"the server's reason: {error}")
    return section


def model_facts(model: Model) -> str:
    """Returns a model in one line."""
    return (
        f"{short_name(model)}: {model.architecture}, {model.layers} x {model.heads} heads, {model.hidden_size} wide, "
        f"{model.runtime} {model.precision} on {model.device}, weights {model.weights_digest[:19]}"
    )


def head_name(layer: int, head: int) -> str:
    """Returns a head in short: "3:1" is head 1 of layer 3, both from 0."""
    return f"{layer}:{head}"


def percent(share: float) -> str:
    """Returns a share in percent; a dash for one that there is not."""
    return "–" if share != share else f"{100 * share:.1f} %"  # NaN
