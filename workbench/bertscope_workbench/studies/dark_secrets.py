"""Runs sections 4.1 to 4.6 of Kovaleva et al. 2019, "Revealing the Dark Secrets of BERT", on a hosted model."""

from __future__ import annotations

from bertscope import Client, Model

from bertscope_workbench.studies.data import StudyData
from bertscope_workbench.studies.disabling import disabling
from bertscope_workbench.studies.inquiry import Inquiry, OnStage, answered_study, model_facts
from bertscope_workbench.studies.patterns import change, patterns
from bertscope_workbench.studies.report import Study
from bertscope_workbench.studies.words import features, relations, tokens

SECTIONS = {
    "patterns": patterns,
    "relations": relations,
    "change": change,
    "features": features,
    "tokens": tokens,
    "disabling": disabling,
}
"""By name of a question: what fills its section in."""


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
    return answered_study(inquiry, "dark_secrets", SECTIONS, facts(inquiry), data.unused)


def facts(inquiry: Inquiry) -> list[tuple[str, str]]:
    """Returns what ran, and on how many texts."""
    found = [("model", model_facts(inquiry.model))]
    if inquiry.fine_tuned is not None:
        found.append(("fine-tuned copy", model_facts(inquiry.fine_tuned)))
    limit = inquiry.data.limit
    found.append(("texts", "all of each file" if limit is None else f"the first {limit} of each file"))
    found.append(("numbering", "layers and heads count from 0, in the paper from 1"))
    return found
