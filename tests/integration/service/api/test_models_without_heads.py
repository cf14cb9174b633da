"""Questions that need a head are refused by its name where a model has another head, or none; the remedy is named."""

from pathlib import Path

import grpc
import pytest
from bertscope_service.contract import METHODS

from tests.support.harness import Host, refused
from tools.protos.samples import good

OF_MASKS = ["FillMask", "ScoreTexts", "CompareTexts", "QueryFacts", "ReadLayers", "AttributeLogits", "AttributeWords"]
OF_MASKS += ["SweepHeads", "SweepSites", "RankHeads", "TrainLens"]
LACKING = {
    "NO_MASKED_LM_HEAD": (OF_MASKS, ["headless", "sorter"]),
    "NO_CLASSIFICATION_HEAD": (["Classify"], ["bert", "rater"]),
    "NO_REGRESSION_HEAD": (["PredictValues"], ["bert", "sorter", "topics"]),
    "NO_TOKEN_CLASSIFICATION_HEAD": (["ClassifyTokens"], ["bert", "sorter"]),
    "NO_QUESTION_ANSWERING_HEAD": (["AnswerQuestions"], ["bert", "tagger"]),
}

CASES = [(reason, name, model) for reason, (names, models) in LACKING.items() for name in names for model in models]


@pytest.mark.slow
@pytest.mark.parametrize(("reason", "name", "model"), CASES)
def test_a_question_is_refused_by_the_head_that_it_needs(
    lab: Host, checkpoints: dict[str, Path], reason: str, name: str, model: str
) -> None:
    request = good(checkpoints["bert"])[name]
    request.model = f"models/{model}"  # type: ignore[attr-defined]
    method = next(method for method in METHODS.values() if method.name == name)
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        lab.ask(method, request.SerializeToString())
    assert (failures[0].info.reason, failures[0].info.metadata["model"]) == (reason, f"models/{model}")
    assert f"models/{model}" in failures[0].message and ";" in failures[0].message
