"""Sweeps and rankings of answers give the numbers of AnswerQuestions under interventions; those of labelled words, the numbers
of seqeval and transformers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
import torch
from bertscope_service.analyses.answer_metrics import f1, words_of_answer
from bertscope_service.analyses.objectives.token_labels import linearised
from seqeval.metrics import accuracy_score, f1_score
from transformers import AutoModelForTokenClassification, AutoTokenizer

from tests.support.harness import Host
from tests.support.tiny import SENTENCES, TAGS

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


ZEROED = {0: [1], 2: [0, 3]}


def words_of(text: str) -> list[tuple[int, int]]:
    """Returns the places of the words between blanks."""
    starts = [at for at in range(len(text)) if not text[at].isspace() and (at == 0 or text[at - 1].isspace())]
    return [(start, start + len(text[start:].split()[0])) for start in starts]


TEXTS = [*SENTENCES[:9], "The cat sat in Paris."]
GOLD = [
    [TAGS[at] for at in np.random.default_rng(number).integers(len(TAGS), size=len(words_of(text)))]
    for number, text in enumerate(TEXTS)
]
LABELLED = [
    bertscope.ProbeText(text, [(label, *place) for label, place in zip(labels, words_of(text), strict=True)])
    for text, labels in zip(TEXTS, GOLD, strict=True)
]


def expected(lab_client: bertscope.Client, **options: Any) -> tuple[float, float]:
    """Returns seqeval's F1 and accuracy of the labels that the server gives."""
    found = lab_client.classify_tokens(LABELLED, model="tagger", **options)
    predicted = [[word.label for word in text.words] for text in found]
    return f1_score(GOLD, predicted), accuracy_score(GOLD, predicted)


@pytest.mark.slow
def test_a_sweep(lab_client: bertscope.Client) -> None:
    objective = bertscope.LabelledWords(LABELLED)
    table = lab_client.sweep_heads(objective, model="tagger", mode="zero", sets=[ZEROED]).table()
    baseline = table.start.baseline
    assert list(baseline) == ["entity_f1", "token_accuracy", "loss"]
    assert (baseline["entity_f1"], baseline["token_accuracy"]) == pytest.approx(expected(lab_client))
    (effect,) = table.effects
    changed = expected(lab_client, interventions=[bertscope.zero(layer, heads) for layer, heads in ZEROED.items()])
    assert changed != expected(lab_client)
    assert [effect.metrics[name].score for name in ("entity_f1", "token_accuracy")] == pytest.approx(changed)
    for metric in effect.metrics.values():
        assert metric.low is not None
        assert metric.low <= metric.difference <= metric.high


def test_the_loss_is_that_of_transformers(lab_client: bertscope.Client, sorters: dict[str, Path]) -> None:
    model = AutoModelForTokenClassification.from_pretrained(sorters["tagger"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(sorters["tagger"])
    losses = []
    for text, labels in zip(TEXTS, GOLD, strict=True):
        encoded = tokenizer(text.split(), is_split_into_words=True, return_tensors="pt")
        numbers = encoded.word_ids()
        first = [numbers.index(word) for word in range(len(labels))]
        with torch.inference_mode():
            logs = model(**encoded).logits[0].double().log_softmax(dim=-1).numpy()
        losses.append(-logs[first, [TAGS.index(label) for label in labels]].mean())
    ranking = lab_client.rank_heads(bertscope.LabelledWords(LABELLED), model="tagger")
    assert ranking.loss == pytest.approx(np.mean(losses), abs=1e-4)


def test_importance_is_the_derivative_of_the_loss(lab_client: bertscope.Client) -> None:
    """By central differences, of one text, as the absolute value is taken for each."""
    objective, step = bertscope.LabelledWords(LABELLED[:1]), 0.02
    ranking = lab_client.rank_heads(objective, model="tagger")
    ends = []
    for factor in (1 + step, 1 - step):
        table = lab_client.sweep_heads(objective, model="tagger", mode="scale", factor=factor).table()
        found = {tuple(effect.heads.items()): effect.metrics["loss"].score for effect in table.effects}
        ends.append([found[(layer, (head,)),] for layer in range(4) for head in range(4)])
    slopes = np.abs(np.subtract(*ends) / (2 * step)).reshape(4, 4)
    np.testing.assert_allclose(ranking.gradient, slopes, atol=0.02 * slopes.max())


def test_labels_without_mentions_have_no_f1(lab_client: bertscope.Client) -> None:
    outside = [bertscope.ProbeText(text, [("O", *place) for place in words_of(text)]) for text in TEXTS]
    sweep = lab_client.sweep_heads(bertscope.LabelledWords(outside), model="tagger", mode="zero", sets=[ZEROED])
    assert list(sweep.table().start.baseline) == ["token_accuracy", "loss"]


def test_words_that_are_cut_away_are_not_measured(lab_client: bertscope.Client) -> None:
    """Then only the first word of the long text counts, as it would alone."""
    labels = [("O", 0, 3), ("B-PER", 396, 399)]
    long = bertscope.ProbeText("cat " * 100, labels)
    cut = lab_client.sweep_heads(bertscope.LabelledWords([long], truncate=True), model="tagger", mode="zero", sets=[ZEROED])
    start = cut.table().start
    (found,) = lab_client.classify_tokens(long, model="tagger", truncate=True)
    assert start.truncated_texts == 1
    assert [word.label is None for word in found.words] == [False, True]
    assert start.baseline["token_accuracy"] == (found.words[0].label == "O")


@pytest.mark.parametrize(
    ("above", "below", "ratio"), [([1, 0, 3], [2, 4, 4], 0.4), ([0, 0], [0, 0], 0.0), ([2], [2], 1.0), ([0, 2], [0, 3], 2 / 3)]
)
def test_linearised_values_have_the_mean_and_the_spread_of_the_ratio(
    above: Sequence[int], below: Sequence[int], ratio: float
) -> None:
    """The spread is compared with that of the ratio without each text (jackknife), which is equal in the first order."""
    values = linearised(np.array(above), np.array(below))
    assert values.mean() == pytest.approx(ratio)
    generator = np.random.default_rng(0)
    many = generator.integers(1, 9, size=2000)
    some = generator.binomial(many, 0.7)
    left_out = (some.sum() - some) / (many.sum() - many)
    spread = linearised(some, many).std() / np.sqrt(len(many))
    assert spread == pytest.approx(np.sqrt(((left_out - left_out.mean()) ** 2).sum()), rel=1e-2)
