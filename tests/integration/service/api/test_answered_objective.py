"""Sweeps and rankings of answers give the numbers of AnswerQuestions under interventions."""

import bertscope
import pytest
from bertscope_service.analyses.answer_metrics import f1, words_of_answer

from tests.support.harness import Host

QUESTION = "Where is the café?"
PASSAGES = (
    "The café in Zürich serves a naïve soufflé.",
    "東京 is large 😀, and Αθήνα is old. The dog sat on the table. " * 4,
    "The keys to the cabinet are on the table near the window.",
)


@pytest.fixture(scope="module")
def objective(lab: Host) -> bertscope.LabelledQuestions:
    """Gold answers that the untouched model gives, but for the last."""
    with bertscope.Client(lab.target) as client:
        found = client.answer_questions([(QUESTION, passage) for passage in PASSAGES], model="answerer")
    best = [[(answer.spans[0].start, answer.spans[0].end)] for answer in found]
    golds = [best[0], [*best[1], "Αθήνα"], "keys"]
    return bertscope.LabelledQuestions([(QUESTION, passage, gold) for passage, gold in zip(PASSAGES, golds, strict=True)])


def test_a_sweep_measures_what_answers_are_under_interventions(
    lab_client: bertscope.Client, objective: bertscope.LabelledQuestions
) -> None:
    sets = [{0: [0]}, {1: None}, {0: [1], 2: [0, 3]}]
    golds = [[words_of_answer(passage[start:end]) for start, end in given] for _, passage, given in objective.questions]
    table = lab_client.sweep_heads(objective, model="answerer", sets=sets).table()
    assert list(table.baseline) == ["accuracy", "answer_f1", "loss"]
    assert len(table.effects) == len(sets)
    questions = [(QUESTION, passage) for passage in PASSAGES]
    for effect in table.effects:
        changes = [bertscope.zero(layer, heads) for layer, heads in effect.heads.items()]
        found = lab_client.answer_questions(questions, model="answerer", interventions=changes)
        pairs = [(words_of_answer(answer.answer), gold) for answer, gold in zip(found, golds, strict=True)]
        assert effect.metrics["accuracy"].score == pytest.approx(sum(words in gold for words, gold in pairs) / 3)
        best = [max(f1(words, one) for one in gold) for words, gold in pairs]
        assert effect.metrics["answer_f1"].score == pytest.approx(sum(best) / 3)
        assert abs(effect.metrics["loss"].difference) > 1e-5
    ranking = lab_client.rank_heads(objective, model="answerer")
    assert ranking.loss == pytest.approx(table.baseline["loss"], abs=1e-4)
    assert (ranking.gradient > 0).all()


def test_questions_without_an_answer(lab_client: bertscope.Client) -> None:
    (found,) = lab_client.answer_questions((QUESTION, PASSAGES[0]), model="answerer")
    for threshold, right in ((found.no_answer_score - 0.01, 1), (found.no_answer_score + 0.01, 0)):
        asked = bertscope.LabelledQuestions([(QUESTION, PASSAGES[0], [])], no_answer_threshold=threshold)
        baseline = lab_client.sweep_heads(asked, model="answerer", sets=[{0: 0}]).table().baseline
        assert baseline["accuracy"] == baseline["answer_f1"] == right
