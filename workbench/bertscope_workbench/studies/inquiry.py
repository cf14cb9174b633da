"""Asks the questions of a study: the client, the models, and how far each question is."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertscope import BertscopeError, Client, FeatureScores, Model, RelationScores, TextsProgress
from bertscope.values.display import record
from bertscope.values.models import short_name

from bertscope_workbench.plots.figures import svg_bytes
from bertscope_workbench.studies.data import StudyData
from bertscope_workbench.studies.report import LeftOut, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

    def picture(self, figure: Figure, caption: str) -> Picture:
        """Returns a figure for the page."""
        return Picture(caption, svg_bytes(figure))


def head_name(layer: int, head: int) -> str:
    """Returns a head in short: "3:1" is head 1 of layer 3, both from 0."""
    return f"{layer}:{head}"


def percent(share: float) -> str:
    """Returns a share in percent; a dash for one that there is not."""
    return "–" if share != share else f"{100 * share:.1f} %"  # NaN
