"""Runs a declared study: asks its items of one model, or of two, and returns figures beside published ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory

from bertscope import Client, Model
from bertscope.errors import invalid_argument
from bertscope.values.display import record
from bertscope.values.models import short_name
from bertscope.values.validation import File

from bertscope_workbench.studies.asking import Outcome, ask_associations, ask_facts, ask_pairs, ask_words
from bertscope_workbench.studies.definition import Definition
from bertscope_workbench.studies.easy_facts import with_easy_groups
from bertscope_workbench.studies.inquiry import OnStage
from bertscope_workbench.studies.items import Association, Blank, Choice, Known, Pair, Skipped
from bertscope_workbench.studies.kept_rows import KeptRows
from bertscope_workbench.studies.measures import Difference, Measure, Verdict, compare, judge, measures
from bertscope_workbench.studies.readers import Questions


@record
class Answers:
    """The answers of one model to one part."""

    model: Model
    outcomes: tuple[Outcome, ...]
    """One for each item."""
    measures: tuple[Measure, ...]
    """The whole part first, then groups, for each metric."""
    verdicts: tuple[Verdict, ...]
    """Published figures beside the model's."""
    skipped: Skipped
    """Items that the model was not asked."""

    @property
    def asked(self) -> int:
        """Number of items that were asked."""
        return sum(not outcome.skipped for outcome in self.outcomes)


@record
class PartResult:
    """One part of a study."""

    questions: Questions
    answers: tuple[Answers, ...] = ()
    """The model's, then the baseline's if there is one; none if the part was left out."""
    differences: tuple[Difference, ...] = ()
    """The model against the baseline, if there is one: the whole part first, then groups, for each metric."""


@record
class StudyResult:
    """A whole declared study."""

    definition: Definition
    models: tuple[Model, ...]
    """The model, and the baseline if there is one."""
    parts: tuple[PartResult, ...] = field(default_factory=tuple)

    def measure(self, part: str, metric: str, group: str = "", model: int = 0) -> Measure:
        """Returns one figure. Raises KeyError if there is none."""
        for result in self.parts:
            if result.questions.part.name == part and result.answers:
                for measure in result.answers[model].measures:
                    if (measure.metric, measure.group) == (metric, group):
                        return measure
        raise KeyError(f"{part}, {metric}, {group}")


def run_study(
    client: Client,
    definition: Definition,
    questions: Sequence[Questions],
    *,
    model: str | Model | None = None,
    baseline: str | Model | None = None,
    rows: File | None = None,
    resume: bool = False,
    timeout: float | None = None,
    on_stage: OnStage | None = None,
) -> StudyResult:
    """Asks all items of a study. `baseline` is a second model to compare with. `on_stage` hears of progress.

    `rows` is a folder that keeps the answers, a file of rows for each part and model; with `resume` a study goes on with those
    that it has. A server that goes away after the first answer is waited for, as in `write_items`.

    Raises NotFound for a model that is not hosted, InvalidArgument if the model has no masked-LM head, FailedPrecondition for a
    folder that has rows without `resume`, or rows of other items, options or weights, and OSError if rows can't be written.
    """
    models = [_model(client, name, timeout) for name in (model, *([] if baseline is None else [baseline]))]
    with _folder(rows) as folder:
        kept = KeptRows(client, folder, timeout)
        kept.begin(resume=resume)
        parts = [_part(kept, models, each, on_stage) for each in questions]
    return StudyResult(definition, tuple(models), tuple(parts))


def _model(client: Client, name: str | Model | None, timeout: float | None) -> Model:
    """Returns a model that can be asked."""
    found = client.get_model(name)
    if found.state != "ready":
        client.fill_mask("[MASK]", model=found, top_k=1, timeout=timeout)  # Says that it still loads, unless it is ready.
        found = client.get_model(name)
    if "cloze" not in found.capabilities:
        raise invalid_argument("model", f"{short_name(found)} has no masked-LM head; ask one whose capabilities have cloze")
    return found


@contextmanager
def _folder(rows: File | None) -> Iterator[Path]:
    """Gives the folder of rows; unless one is named, one that does not stay."""
    if rows is not None:
        yield Path(rows)
        return
    with TemporaryDirectory(prefix="bertscope-") as folder:
        yield Path(folder)


def _part(kept: KeptRows, models: Sequence[Model], questions: Questions, on_stage: OnStage | None) -> PartResult:
    if not questions.read.items:
        return PartResult(questions)
    questions = with_easy_groups(kept, models[0], questions, on_stage)
    items = questions.read.items
    answers = [_answers(kept, model, questions, on_stage) for model in models]
    differences = compare(questions.part, items, answers[0].outcomes, answers[1].outcomes) if len(answers) > 1 else ()
    return PartResult(questions, tuple(answers), differences)


def _answers(kept: KeptRows, model: Model, questions: Questions, on_stage: OnStage | None) -> Answers:
    part, items, stage = questions.part, questions.read.items, f"{questions.part.name}, {short_name(model)}"

    def show(done: int, total: int) -> None:
        if on_stage is not None:
            on_stage(stage, done, total)

    if part.ask == "pair":
        pairs = [item for item in items if isinstance(item, Pair)]
        outcomes = ask_pairs(kept, part.name, model, pairs, part.scoring, show)
    elif part.ask == "association":
        associations = [item for item in items if isinstance(item, Association)]
        outcomes = ask_associations(kept, part.name, model, associations, part.scoring, show)
    elif questions.by_facts:
        known = [item for item in items if isinstance(item, Known)]
        outcomes = ask_facts(kept, part.name, model, known, show, questions.read.vocabulary)
    else:
        questioned = [item for item in items if isinstance(item, Choice | Blank)]
        outcomes = ask_words(kept, part.name, model, questioned, show)
    found = measures(part, items, outcomes)
    skipped = Skipped()
    for item, outcome in zip(items, outcomes, strict=True):
        if outcome.skipped:
            skipped.add(outcome.skipped, item.example())
    return Answers(
        model, tuple(outcomes), tuple(found), tuple(judge(part, model, found, as_declared=questions.as_declared)), skipped
    )
