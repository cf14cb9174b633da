"""Runs sections 4.1 to 4.6 of Kovaleva et al. 2019, "Revealing the Dark Secrets of BERT", on a hosted model."""

from __future__ import annotations

from collections.abc import Callable

from bertscope import Client, FailedPrecondition, InvalidArgument, Model, Unimplemented
from bertscope.values.models import short_name

from bertscope_workbench.studies.data import StudyData
from bertscope_workbench.studies.disabling import disabling
from bertscope_workbench.studies.inquiry import Inquiry, OnStage
from bertscope_workbench.studies.patterns import change, patterns
from bertscope_workbench.studies.questions import CHANGE, DISABLING, FEATURES, PATTERNS, RELATIONS, TOKENS
from bertscope_workbench.studies.report import LeftOut, Question, Section, Study
from bertscope_workbench.studies.words import features, relations, tokens

TITLE = "Dark secrets, redone"
SOURCE = (
    "Olga Kovaleva, Alexey Romanov, Anna Rogers and Anna Rumshisky (2019): Revealing the Dark Secrets of BERT. "
    "EMNLP-IJCNLP 2019."
)
SECTIONS: tuple[tuple[Question, Callable[[Inquiry, Section], None]], ...] = (
    (PATTERNS, patterns),
    (RELATIONS, relations),
    (CHANGE, change),
    (FEATURES, features),
    (TOKENS, tokens),
    (DISABLING, disabling),
)


def study_dark_secrets(
    client: Client,
    data: StudyData,
    *,
    model: str | Model | None = None,
    fine_tuned: str | Model | None = None,
    dark: bool = False,
    timeout: float | None = None,
    on_stage: OnStage | None = None,
) -> Study:
    """Asks every question of the paper that the data and the models can answer; the others are in the study as left out.

    `fine_tuned` is the model's fine-tuned copy. `on_stage` hears of progress. Raises NotFound for a model that is not
    hosted.
    """
    first = client.get_model(model)
    second = None if fine_tuned is None else client.get_model(fine_tuned)
    inquiry = Inquiry(client, data, first, second, dark, timeout, on_stage)
    sections = [answered(inquiry, question, ask) for question, ask in SECTIONS]
    return Study(TITLE, SOURCE, facts(inquiry), sections, data.unused)


def answered(inquiry: Inquiry, question: Question, ask: Callable[[Inquiry, Section], None]) -> Section:
    """Returns the section; what can't be measured of it is left out, with the reason."""
    section = Section(question)
    try:
        ask(inquiry, section)
    except LeftOut as why:
        section.left_out.append(str(why))
    except (FailedPrecondition, InvalidArgument, Unimplemented) as error:
        section.left_out.append(f"the rest; the server's reason: {error}" if section.parts else f"the server's reason: {error}")
    return section


def facts(inquiry: Inquiry) -> list[tuple[str, str]]:
    """Returns what ran, and on how many texts."""
    found = [("model", model_facts(inquiry.model))]
    if inquiry.fine_tuned is not None:
        found.append(("fine-tuned copy", model_facts(inquiry.fine_tuned)))
    limit = inquiry.data.limit
    found.append(("texts", "all of each file" if limit is None else f"the first {limit} of each file"))
    found.append(("numbering", "layers and heads count from 0, in the paper from 1"))
    return found


def model_facts(model: Model) -> str:
    """Returns a model in one line."""
    return (
        f"{short_name(model)}: {model.architecture}, {model.layers} x {model.heads} heads, {model.hidden_size} wide, "
        f"{model.runtime} {model.precision} on {model.device}, weights {model.weights_digest[:19]}"
    )
