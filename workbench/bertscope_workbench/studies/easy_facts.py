"""Divides the facts of a study into those that are easy to guess and the others: LAMA-UHN (Poerner et al. 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bertscope import Model
from bertscope.questions.facts.names import NAME_NOUNS, guessed, name_questions
from bertscope.questions.facts.questions import relations_by_name
from bertscope.values.models import short_name

from bertscope_workbench.studies.asking import fact_results
from bertscope_workbench.studies.inquiry import OnStage
from bertscope_workbench.studies.items import Item, Known
from bertscope_workbench.studies.kept_rows import KeptRows

if TYPE_CHECKING:
    from bertscope_workbench.studies.readers import Questions

EASY, HARD = "easy to guess", "not easy to guess (UHN)"


def with_easy_groups(kept: KeptRows, model: Model, questions: Questions, on_stage: OnStage | None) -> Questions:
    """Returns a part whose facts have one group more, EASY or HARD, if its definition says `uhn`; else the part itself.

    A fact is easy if its subject contains a right object, letter case ignored, or if the model guesses the object from a part
    of the person's name, as in `Client.guess_by_name`. A baseline is asked the same facts: those that are easy for the model.
    """
    if not questions.part.options.get("uhn"):
        return questions
    name = questions.part.name

    def show(done: int, total: int) -> None:
        if on_stage is not None:
            on_stage(f"{name}, names, {short_name(model)}", done, total)

    known = [item for item in questions.read.items if isinstance(item, Known)]
    numbers, asked, relations = name_questions([item.fact for item in known], NAME_NOUNS)
    by_name: frozenset[int] = frozenset()
    if asked:
        found = fact_results(kept, f"{name}-names", model, asked, relations_by_name(relations), show)
        taken = [(number, result) for number, result in zip(numbers, found, strict=True) if not isinstance(result, str)]
        by_name = guessed([number for number, _ in taken], [result for _, result in taken])
    divided: list[Item] = []
    for index, item in enumerate(known):
        subject = item.fact.subject.lower()
        easy = index in by_name or any(word.lower() in subject for word in item.fact.objects)
        divided.append(replace(item, groups=(*item.groups, EASY if easy else HARD)))
    return replace(questions, read=replace(questions.read, items=divided))
