"""Divides the facts of a study into those that are easy to guess and the others: LAMA-UHN (Poerner et al. 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bertscope.client import Client
from bertscope.models import Model, short_name
from bertscope.results import TextsProgress
from bertscope.studies.inquiry import OnStage
from bertscope.studies.items import Item, Known

if TYPE_CHECKING:
    from bertscope.studies.readers import Questions

EASY, HARD = "easy to guess", "not easy to guess (UHN)"


def with_easy_groups(
    client: Client, model: Model, questions: Questions, timeout: float | None, on_stage: OnStage | None
) -> Questions:
    """Returns a part whose facts have one group more, EASY or HARD, if its definition says `uhn`; else the part itself.

    A fact is easy if its subject contains a right object, letter case ignored, or if the model guesses the object from a part
    of the person's name. A baseline is asked the same facts: those that are easy for the model.
    """
    if not questions.part.options.get("uhn"):
        return questions

    def show(progress: TextsProgress) -> None:
        if on_stage is not None and progress.total is not None:
            on_stage(f"{questions.part.name}, names, {short_name(model)}", progress.done, progress.total)

    known = [item for item in questions.read.items if isinstance(item, Known)]
    by_name = client.guess_by_name([item.fact for item in known], model=model, on_progress=show, timeout=timeout)
    divided: list[Item] = []
    for index, item in enumerate(known):
        subject = item.fact.subject.lower()
        easy = index in by_name or any(word.lower() in subject for word in item.fact.objects)
        divided.append(replace(item, groups=(*item.groups, EASY if easy else HARD)))
    return replace(questions, read=replace(questions.read, items=divided))
