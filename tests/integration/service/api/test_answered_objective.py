"""Sweeps and rankings of answers give the numbers of AnswerQuestions under interventions."""

from __future__ import annotations

import json
from pathlib import Path

import bertscope
import pytest
from bertscope_service.analyses.answer_metrics import f1, words_of_answer
from bertscope_workbench.command.app import run

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


def test_a_sweep_measures_what_answers_are_under_interventions(lab: Host, objective: bertscope.LabelledQuestions) -> None:
    sets = [{0: [0]}, {1: None}, {0: [1], 2: [0, 3]}]
    golds = [[words_of_answer(passage[start:end]) for start, end in given] for _, passage, given in objective.questions]
    with bertscope.Client(lab.target) as client:
        table = client.sweep_heads(objective, model="answerer", sets=sets).table()
        assert list(table.baseline) == ["accuracy", "answer_f1", "loss"]
        assert len(table.effects) == len(sets)
        for effect in table.effects:
            changes = [bertscope.zero(layer, heads) for layer, heads in effect.heads.items()]
            found = client.answer_questions(
                [(QUESTION, passage) for passage in PASSAGES], model="answerer", interventions=changes
            )
            said = [words_of_answer(answer.answer) for answer in found]
            assert effect.metrics["accuracy"].score == pytest.approx(
                sum(words in gold for words, gold in zip(said, golds, strict=True)) / 3
            )
            assert effect.metrics["answer_f1"].score == pytest.approx(
                sum(max(f1(words, one) for one in gold) for words, gold in zip(said, golds, strict=True)) / 3
            )
            assert abs(effect.metrics["loss"].difference) > 1e-5
        ranking = client.rank_heads(objective, model="answerer")
    assert ranking.loss == pytest.approx(table.baseline["loss"], abs=1e-4)
    assert (ranking.gradient > 0).all()


def test_questions_without_an_answer(lab: Host) -> None:
    with bertscope.Client(lab.target) as client:
        (found,) = client.answer_questions((QUESTION, PASSAGES[0]), model="answerer")
        for threshold, right in ((found.no_answer_score - 0.01, 1), (found.no_answer_score + 0.01, 0)):
            asked = bertscope.LabelledQuestions([(QUESTION, PASSAGES[0], [])], no_answer_threshold=threshold)
            baseline = client.sweep_heads(asked, model="answerer", sets=[{0: 0}]).table().baseline
            assert baseline["accuracy"] == baseline["answer_f1"] == right


def test_the_command_measures_a_file(
    lab: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", lab.target)
    file = tmp_path / "questions.jsonl"
    items = [
        {"question": QUESTION, "passage": PASSAGES[0], "answer": "Zürich|soufflé"},
        {"question": QUESTION, "passage": PASSAGES[2], "answer": []},
    ]
    file.write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    assert run(["sweep", "--answered", str(file), "--model", "answerer", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "answer_f1" in json.dumps(document)
    file.write_text(json.dumps(items[0] | {"answer": "Paris"}), encoding="utf-8")
    assert run(["rank", "--answered", str(file), "--model", "answerer"]) == 1
    assert "does not occur in the passage" in capsys.readouterr().err


def test_a_smaller_model_answers_and_is_measured_beside_the_first(lab: Host, objective: bertscope.LabelledQuestions) -> None:
    before = lab.names()
    with bertscope.Client(lab.target) as client:
        made = client.compress_model("shallow", bertscope.keep_layers([0, 1]), model="answerer")
        assert "question_answering" in made.capabilities
        (found,) = client.answer_questions((QUESTION, PASSAGES[0]), model=made, best=1)
        assert found.answer in PASSAGES[0]
        report = client.benchmark_models(
            ["answerer", "shallow"], objective=objective, lengths=[8], batch_sizes=[1], min_runs=3, min_seconds=0.0
        )
        baseline = client.sweep_heads(objective, model="answerer", sets=[{0: 0}]).table().baseline
    lab.unload_all_but(before)
    for model in report.models:
        assert [score.metric for score in model.scores] == ["accuracy", "answer_f1", "loss"]
    assert {score.metric: score.value for score in report.models[0].scores} == pytest.approx(baseline, abs=1e-4)
