"""Cloze claims on a tiny random model with a real vocabulary: finite numbers, equal to those of transformers, and refusals."""

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import bertscope
import bertscope_service.embedded
import pytest
import torch
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.claim import ClaimTest
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.estimates import NotAsked
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.items.contrasts import shipped_contrasts
from bertscope_workbench.papers.items.labelled import task_of
from bertscope_workbench.papers.measures import attention, calibration, choices, facts, pairs, silencing
from bertscope_workbench.papers.pictures_data import Grid
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification

from tests.support.harness import LoopThread, launched

MODULES = ("choices", "facts", "pairs", "perturbations", "calibration")
TESTS = [test for claim in read_claims() for test in claim.tests if test.measure.split(".")[0] in MODULES]
CROWS = "sent_more,sent_less,stereo_antistereo,bias_type\n" + "".join(
    f"The old {one} is here.,The young {one} is here.,stereo,age\n" for one in ("man", "dog", "house", "car", "book", "king")
)
EXAMPLES = [
    {
        "target": target,
        "bias_type": "profession",
        "context": f"The {target} is BLANK.",
        "sentences": [
            {"sentence": f"The {target} is {word}.", "gold_label": label}
            for label, word in (("stereotype", "rich"), ("anti-stereotype", "poor"), ("unrelated", "unforgettable"))
        ],
    }
    for target in ("king", "queen", "farmer", "teacher", "doctor", "lawyer")
]
NOUNS = ("man", "dog", "house", "car", "book", "king", "queen", "farmer", "teacher", "doctor")
LABELS = ("bad", "good")
PAIR = {"sentence_good": "No {} has ever left.", "sentence_bad": "The {} has ever left.", "linguistics_term": "npi_licensing"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model, small but with the embedded model's vocabulary."""
    folder = tmp_path_factory.mktemp("cloze") / "random"
    source = Path(bertscope_service.embedded.__file__).parent / "bertscope-mini"
    torch.manual_seed(0)
    config = BertConfig.from_pretrained(
        source, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertForMaskedLM(config).save_pretrained(folder)
    config.id2label = dict(enumerate(LABELS))
    BertForSequenceClassification(config).save_pretrained(folder / "labels")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder)
        shutil.copy(source / name, folder / "labels")
    return folder


@pytest.fixture(scope="module")
def asking(loop: LoopThread, folder: Path) -> Iterator[Asking]:
    with (
        launched(loop, model=[f"random={folder}", f"labels={folder / 'labels'}"]) as host,
        bertscope.Client(host.target) as client,
    ):
        asking = Asking(client, client.get_model("random"))
        yield asking
        asking.close()


@pytest.fixture
def published(asking: Asking, tmp_path: Path) -> Asking:
    (tmp_path / "crows_pairs_anonymized.csv").write_text(CROWS, encoding="utf-8")
    (tmp_path / "dev.json").write_text(json.dumps({"data": {"intrasentence": EXAMPLES}}), encoding="utf-8")
    for name in ("npi_present_1", "only_npi_scope"):
        lines = (json.dumps(PAIR | {"UID": name}).replace("{}", noun) for noun in ("man", "dog", "king", "car"))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return replace(asking, data=Data(tmp_path), _kept={}, _folder=None)


@pytest.mark.parametrize("test", [pytest.param(test, id=f"{test.measure} {test.name}") for test in TESTS])
def test_measures_are_finite(asking: Asking, test: ClaimTest) -> None:
    try:
        found = test.function(asking, **test.options)
    except NotAsked as error:
        assert "--" in str(error) or test.measure == "facts.two_steps"
        return
    assert math.isfinite(found.difference)
    assert found.low <= found.difference <= found.high
    assert found.items >= test.least_items
    assert not asking.rejected.count


def test_shares_are_those_of_transformers(asking: Asking, folder: Path) -> None:
    items = shipped_contrasts("fitting-roles")[:12]
    model, tokenizer = BertForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    expected = []
    for item in items:
        (text, right), (_, wrong) = item.right[0], item.wrong[0]
        encoded = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            scores = model(**encoded).logits[encoded.input_ids == tokenizer.mask_token_id][0]
        one, other = (scores[tokenizer.convert_tokens_to_ids(word)] for word in (right, wrong))
        expected.append(float(one > other))
    assert choices.outcomes(asking, items) == expected
    assert 0 < sum(expected) < len(items)


def test_published_pairs(published: Asking) -> None:
    found = pairs.crows_pairs(published)
    assert found.items == 6
    assert found.value in {share / 6 for share in range(7)}
    for metric in ("ss", "lms"):
        assert pairs.stereoset(published, metric=metric).items == 6
    both = pairs.published_difference(published, files=["npi_present_*.jsonl"], control=["*npi_scope.jsonl"])
    assert (both.items, both.difference) == (8, 0.0)  # the pairs are the same


def test_shared_words_alone_are_scored(published: Asking) -> None:
    (item, *_) = pairs._published(published, "crows-pairs", "pairs")
    assert isinstance(item, pairs.Pair)
    texts = [bertscope.ScoredInput(text, parts) for text, parts in zip((item.good, item.bad), item.parts, strict=True)]
    (row, *_) = published.client.compare_texts([bertscope.TextSet(texts)], model=published.model, scoring="original").sets
    assert row.scored_pieces == (5, 5)
    (whole, *_) = published.client.score_texts([item.good], model=published.model, scoring="original")
    expected = sum(piece.log_probability for piece in whole.pieces if piece.text != "old")
    assert row.log_likelihoods[0] == pytest.approx(expected, abs=1e-4)


@pytest.fixture
def tuned(published: Asking) -> Asking:
    """With a classifier as the fine-tuned copy, and texts that have its labels."""
    (published.data.folder or Path()).joinpath("texts.tsv").write_text(
        "text\tlabel\n" + "".join(f"the {noun} is here\t{LABELS[place % 2]}\n" for place, noun in enumerate(NOUNS)),
        encoding="utf-8",
    )
    return replace(published, fine_tuned=published.client.get_model("labels"), _kept={})


def test_labels_of_a_classifier(tuned: Asking) -> None:
    answers = tuned.client.classify([f"the {noun} is here" for noun in NOUNS], model="labels")
    right = sum(answer.label == LABELS[place % 2] for place, answer in enumerate(answers))
    found = calibration.accuracy(tuned, of="labels")
    assert (found.value, found.control, found.items) == (right / len(NOUNS), 0.5, len(NOUNS))
    assert 0 <= calibration.error(tuned, of="labels").value <= 1
    assert calibration.temperature_gain(tuned, of="labels").items == len(NOUNS) / 2
    other = replace(tuned, fine_tuned=None, _kept={})
    with pytest.raises(NotAsked, match="--fine-tuned"):
        calibration.accuracy(other, of="labels")


def test_heads_of_a_classifier_are_made_uniform(tuned: Asking) -> None:
    texts = [(f"the {noun} is here", LABELS[place % 2]) for place, noun in enumerate(NOUNS)]
    table = tuned.client.sweep_heads(bertscope.LabelledTexts(texts), model="labels", mode="uniform").table()
    found = silencing.best_to_silence(tuned, scope="heads", mode="uniform", of="labels")
    assert isinstance(found.picture, Grid)
    rises = [effect.metrics["accuracy"].difference for effect in table.effects]
    assert found.picture.values == [pytest.approx(rises)]
    assert f"untouched {table.baseline['accuracy']:.3f}" in found.notes[1]
    layer = silencing.best_to_silence(tuned, scope="layers", mode="uniform", of="labels")
    assert "labelled by labels" in layer.data


def test_maps_of_own_texts(tuned: Asking) -> None:
    pairs = [("the man is here", "a dog"), ("the king", "the car is here")]
    lines = (f"{first}\t{second}\t{LABELS[0]}\n" for first, second in pairs)
    (tuned.data.folder or Path()).joinpath("a_pairs.tsv").write_text("sentence1\tsentence2\tlabel\n" + "".join(lines), "utf-8")
    own = attention.class_share(tuned, classes=["vertical"], pairs=True, own=True)
    whole = tuned.client.describe_attention(pairs, model=tuned.model)
    assert own.value == pytest.approx(whole.pattern_share("vertical").mean())
    assert attention.class_share(tuned, classes=["vertical"], own=True).items == len(NOUNS)
    with pytest.raises(NotAsked, match="--data has no labelled pairs"):
        attention.class_share(replace(tuned, data=Data(), _kept={}), classes=["vertical"], pairs=True, own=True)


def test_of_two_files_a_classifier_is_asked_the_one_that_it_knows_more_of(tuned: Asking) -> None:
    folder, texts = tuned.data.folder or Path(), [f"the {noun} is here" for noun in NOUNS]
    answers = [str(answer.label) for answer in tuned.client.classify(texts, model="labels")]
    wrong = [LABELS[answer == LABELS[0]] for answer in answers]
    for name, labels in (("all_wrong", wrong), ("training", answers)):
        lines = (f"{text}\t{label}\n" for text, label in zip(texts, labels, strict=True))
        (folder / f"{name}.tsv").write_text("text\tlabel\n" + "".join(lines), "utf-8")
    labelled, model = task_of(tuned)
    assert (labelled.path.name, model.name) == ("texts.tsv", "models/labels")


def test_languages_without_sentences_are_not_asked(asking: Asking) -> None:
    with pytest.raises(NotAsked, match="no plain sentences in the language"):
        calibration.error(replace(asking, languages=("la",), _kept={}))


def test_facts_need_a_known_capital(asking: Asking) -> None:
    with pytest.raises(NotAsked, match="no capital whose country"):
        facts.two_steps(asking)
