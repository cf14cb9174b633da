"""Divides facts into those that are easy to guess and the others: LAMA-UHN (Poerner et al. 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bertscope import Model
from bertscope.questions.facts.questions import relations_by_name

from bertscope_workbench.analyses.names import NAME_NOUNS, guessed, name_questions
from bertscope_workbench.papers.published.item_kinds import Item, Known
from bertscope_workbench.papers.published.kept_rows import KeptRows, OnDone
from bertscope_workbench.papers.published.outcomes import fact_results

if TYPE_CHECKING:
    from bertscope_workbench.papers.published.readers import Questions

EASY, HARD = "easy to guess", "not easy to guess (UHN)"


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
