"""Exact match, F1 and loss of answers: as SQuAD's evaluation has them, and as transformers' own training loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.analyses.answer_metrics import f1, words_of_answer
from bertscope_service.analyses.objectives.answered import AnsweredObjective, AnsweredQuery, LabelledQuestion
from bertscope_service.analyses.observers.answers import AnswerObserver
from bertscope_service.analyses.passages import PassageQuestion
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from tests.support.reference import Subject
from tests.support.runner import run_rows
from tests.support.tiny import write_checkpoint

QUESTION = "Where is the café?"
SHORT = "The café in Zürich serves a naïve soufflé for 3.50 €."
LONG = f"{SHORT} 東京 is large 😀, and Αθήνα is old. The dog sat on the table. " * 3


@pytest.fixture(scope="module", params=["bert"])
def answerer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = tmp_path_factory.mktemp("answerers") / request.param
    return Subject(request.param, write_checkpoint(request.param, folder, task="answers", labels=2))


def question(passage: str, *answers: tuple[int, int], index: int = 0) -> LabelledQuestion:
    return LabelledQuestion(PassageQuestion(QUESTION, passage, f"questions[{index}].input"), answers, f"questions[{index}]")


def span(passage: str, answer: str) -> tuple[int, int]:
    start = passage.index(answer)
    return start, start + len(answer)


def build(answerer: Subject, *questions: LabelledQuestion, **fields: Any) -> AnsweredObjective:
    query = AnsweredQuery(questions, **({"max_answer_tokens": 30, "stride": None, "no_answer_threshold": None} | fields))
    return AnsweredObjective(query, answerer.tokenizer)


def seen(answerer: Subject, objective: AnsweredObjective) -> list[Any]:
    return run_rows(answerer.encoder, list(zip(objective.sequences, objective.observers, strict=True)))


def losses(answerer: Subject, objective: AnsweredObjective) -> torch.Tensor:
    """Of each row, from one padded batch."""
    observers = [observer for observer in objective.losses if isinstance(observer, AnswerObserver)]
    with torch.enable_grad():
        return AnswerObserver.losses(answerer.encoder, answerer.encoder.begin(objective.sequences), None, observers)


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["Zürich", "café in Zürich", None])
def test_the_loss_is_that_of_training(answerer: Subject, answer: str | None) -> None:
    golds = () if answer is None else (span(SHORT, answer),)
    objective = build(answerer, question(SHORT, *golds), question("A cat."), no_answer_threshold=0.0)
    tokenizer = AutoTokenizer.from_pretrained(answerer.folder)
    encoding = tokenizer(QUESTION, SHORT, return_tensors="pt", return_offsets_mapping=True)
    offsets, first, last = encoding.pop("offset_mapping")[0].tolist(), 0, 0
    if answer is not None:
        held = [
            place
            for place, which in enumerate(encoding.sequence_ids())
            if which == 1 and offsets[place][1] > golds[0][0] and offsets[place][0] < golds[0][1]
        ]
        first, last = held[0], held[-1]
        assert first > 0
    reference = AutoModelForQuestionAnswering.from_pretrained(answerer.folder).eval()
    with torch.no_grad():
        expected = reference(**encoding, start_positions=torch.tensor([first]), end_positions=torch.tensor([last])).loss
    assert objective.measure(seen(answerer, objective))[2, 0] == pytest.approx(float(expected), abs=1e-4)
    assert float(losses(answerer, objective)[0]) == pytest.approx(float(expected), abs=1e-4)


def test_the_loss_of_windows_is_their_mean_and_the_best_answer_counts(answerer: Subject) -> None:
    golds = (span(LONG, "Zürich"), span(LONG, "東京"))
    both = build(answerer, question(LONG, *golds), question(SHORT, span(SHORT, "café"), index=1))
    assert len(both.sequences) > both.items == 2
    (_, _, measured) = both.measure(seen(answerer, both))
    rows = losses(answerer, both)
    assert float(rows[:-1].sum()) == pytest.approx(measured[0], abs=1e-4)
    assert float(rows[-1]) == pytest.approx(measured[1], abs=1e-4)
    alone = [build(answerer, question(LONG, gold)) for gold in golds]
    single = [objective.measure(seen(answerer, objective))[2, 0] for objective in alone]
    assert measured[0] <= min(single) + 1e-5, "a batch of other rows rounds a loss otherwise, in single precision"
    assert (rows > 0).all()


@pytest.mark.parametrize(
    ("said", "gold", "score"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1.0),
        ("in the Eiffel Tower", "Eiffel Tower", 0.8),
        ("an a the", "", 1.0),
        ("", "Paris", 0.0),
        ("a rose is a rose", "rose rose rose", 2 * (2 / 3) * (2 / 3) / (4 / 3)),
        ("U.S.A.", "usa", 1.0),
        ("don't", "dont", 1.0),
        ("theatre", "atre", 0.0),
    ],
)
def test_words_are_compared_as_squad_compares_them(said: str, gold: str, score: float) -> None:
    assert f1(words_of_answer(said), words_of_answer(gold)) == pytest.approx(score)
    assert f1(words_of_answer(gold), words_of_answer(said)) == pytest.approx(score)
