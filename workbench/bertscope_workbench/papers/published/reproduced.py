"""Asks the items of reproductions, and sets a model's figures beside published ones and those of a baseline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from bertscope import Model
from bertscope.errors import invalid_argument
from bertscope.questions.facts.answers import relations_by_name
from bertscope.values.display import record
from bertscope.values.models import short_name

from bertscope_workbench.analyses.names import NAME_NOUNS, guessed, name_questions
from bertscope_workbench.papers.published.figures import (
    DIFFERS,
    REPRODUCED,
    ComparedFigure,
    Difference,
    GroupFigure,
    compare_published,
    differences,
    figures_of,
)
from bertscope_workbench.papers.published.item_kinds import Association, Blank, Choice, Item, Known, Pair, Skipped
from bertscope_workbench.papers.published.kept_rows import KeptRows, OnDone
from bertscope_workbench.papers.published.outcomes import (
    Outcome,
    ask_associations,
    ask_facts,
    ask_pairs,
    ask_words,
    fact_results,
)
from bertscope_workbench.papers.published.readers import Questions, read_questions
from bertscope_workbench.papers.published.reproduction import Reproduction

ReproductionVerdict = Literal["reproduced", "differs", "nothing to compare", "not asked"]
UNCOMPARED: ReproductionVerdict = "nothing to compare"
OnShare = Callable[[int, int | None], object]
"""Hears how many items are answered, of how many."""
EASY, HARD = "easy to guess", "not easy to guess (UHN)"
"""Groups of facts (LAMA-UHN, Poerner et al. 2020)."""


@record
class Reproduced:
    """The figures of a reproduction of one model."""

    questions: Questions
    """The reproduction, with its items."""
    model: Model
    verdict: ReproductionVerdict
    """"reproduced" if every published figure of these weights is, "differs" if one does; "nothing to compare" without one."""
    why: str = ""
    """Why it was not asked; empty if it was."""
    outcomes: tuple[Outcome, ...] = ()
    """One for each item."""
    figures: tuple[GroupFigure, ...] = ()
    """The figures of all items first, then of groups, for each metric."""
    compared: tuple[ComparedFigure, ...] = ()
    """PublishedFigure figures beside the model's."""
    skipped: Skipped = field(default_factory=Skipped)
    """Items that the model was not asked."""
    differences: tuple[Difference, ...] = ()
    """The model against the baseline, if there is one: all items first, then groups, for each metric."""
    baseline: str = ""
    """The baseline's name; empty without one."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def asked(self) -> int:
        """Number of items that were asked."""
        return sum(not outcome.skipped for outcome in self.outcomes)

    def figure(self, metric: str, group: str = "") -> GroupFigure:
        """Returns one figure. Raises KeyError if there is none."""
        for each in self.figures:
            if (each.metric, each.group) == (metric, group):
                return each
        raise KeyError(f"{metric}, {group}")


@record(frozen=False)
class Reproducing:
    """The reproductions of a run: their items, and the answers about them, which stay in a folder."""

    kept: KeptRows
    questions: Mapping[str, Questions]
    """By name of the reproduction."""
    divides: Model
    """The model whose guesses divide easy facts from the others, for all models of the run."""
    _of_baseline: dict[str, Reproduced] = field(default_factory=dict)

    def ask(self, model: Model, reproduction: Reproduction, on_share: OnShare, *, as_baseline: bool = False) -> Reproduced:
        """Asks a model; the baseline of a run is asked first. Raises as `KeptRows.rows`, and as the methods of `Client`."""
        questions = self.questions[reproduction.name]
        if not questions.read.items:
            why = questions.missing or "its files hold no item that can be asked"
            return Reproduced(questions, model, "not asked", why)
        questions = with_easy_groups(self.kept, self.divides, questions, on_share)
        outcomes = _outcomes(self.kept, model, questions, on_share)
        items, skipped = questions.read.items, Skipped()
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.skipped:
                skipped.add(outcome.skipped, item.example())
        figures = figures_of(reproduction, items, outcomes)
        compared = compare_published(reproduction, model, figures, as_declared=questions.as_declared)
        verdicts = {each.verdict for each in compared}
        verdict = UNCOMPARED
        if verdicts & {DIFFERS, REPRODUCED}:
            verdict = "differs" if DIFFERS in verdicts else "reproduced"
        found = Reproduced(questions, model, verdict, "", tuple(outcomes), tuple(figures), tuple(compared), skipped)
        other = self._of_baseline.get(reproduction.name)
        if as_baseline:
            self._of_baseline[reproduction.name] = found
        elif other is not None:
            apart = differences(reproduction, items, outcomes, other.outcomes)
            found = replace(found, differences=apart, baseline=short_name(other.model))
        return found


def read_all(
    reproductions: Sequence[Reproduction],
    folder: Path | None,
    limit: int | None,
    vocabulary: Path | None,
    own: Sequence[Path] = (),
) -> dict[str, Questions]:
    """Returns the items of reproductions, by name. Raises InvalidArgument for a broken file, for two of one name and for
    a vocabulary that none needs; OSError."""
    names = [each.name for each in reproductions]
    for name in names:
        if names.count(name) > 1:
            raise invalid_argument(name, "two reproductions have this name; name each claim differently")
    if vocabulary is not None and not any(each.ranks for each in reproductions):
        raise invalid_argument("vocabulary", "no claim ranks words among a vocabulary; leave it out")
    return {each.name: read_questions(each, folder, limit, vocabulary, own) for each in reproductions}


def with_easy_groups(kept: KeptRows, model: Model, questions: Questions, on_done: OnDone) -> Questions:
    """Returns items with one group more, EASY or HARD, if the reproduction says `uhn`; else the same ones.

    A fact is easy if its subject contains a right object, letter case ignored, or if the model guesses the object from a part
    of the person's name, as in `Client.guess_by_name`. A baseline is asked the same facts: those that are easy for the model.
    """
    if not questions.reproduction.options.get("uhn"):
        return questions
    name = questions.reproduction.name

    known = [item for item in questions.read.items if isinstance(item, Known)]
    numbers, asked, relations = name_questions([item.fact for item in known], NAME_NOUNS)
    by_name: frozenset[int] = frozenset()
    if asked:
        found = fact_results(kept, f"{name}-names", model, asked, relations_by_name(relations), on_done)
        taken = [(number, result) for number, result in zip(numbers, found, strict=True) if not isinstance(result, str)]
        by_name = guessed([number for number, _ in taken], [result for _, result in taken])
    divided: list[Item] = []
    for index, item in enumerate(known):
        subject = item.fact.subject.lower()
        easy = index in by_name or any(word.lower() in subject for word in item.fact.objects)
        divided.append(replace(item, groups=(*item.groups, EASY if easy else HARD)))
    return replace(questions, read=replace(questions.read, items=divided))


def _outcomes(kept: KeptRows, model: Model, questions: Questions, on_share: OnShare) -> list[Outcome]:
    """Returns the outcome of each item, in order."""
    reproduction, items = questions.reproduction, questions.read.items
    name = reproduction.name
    if reproduction.ask == "pair":
        pairs = [item for item in items if isinstance(item, Pair)]
        return ask_pairs(kept, name, model, pairs, reproduction.scoring, on_share)
    if reproduction.ask == "association":
        associations = [item for item in items if isinstance(item, Association)]
        return ask_associations(kept, name, model, associations, reproduction.scoring, on_share)
    if questions.by_facts:
        known = [item for item in items if isinstance(item, Known)]
        return ask_facts(kept, name, model, known, on_share, questions.read.vocabulary)
    return ask_words(kept, name, model, [item for item in items if isinstance(item, Choice | Blank)], on_share)
