"""AttributeWords through gRPC: values of every head and both runtimes are those of plain loops over transformers."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import factorial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import target_pb2
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForNextSentencePrediction,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from tests.support.calls import call, refusal
from tests.support.harness import Host, LoopThread, launched
from tests.support.patience import granted
from tests.support.plain import Plain
from tests.support.tiny import LABELS, TAGS, write_checkpoint

LOAD_SECONDS = granted(90)
Numbers = Callable[[Any, list[int]], float]
"""Returns the target from the output of a transformers model for one text, whose positions are those of these ids."""

MASKED = "The cats [MASK] unplayable."
PLAIN, OTHER = "The cat sat outside.", "A dog is in the house."
QUESTION, PASSAGE = "Who sat?", "The cat sat here."
MASK, DELETED, ZERO = attribution.ABSENT_TEXT_MASK, attribution.ABSENT_TEXT_DELETED, attribution.ABSENT_TEXT_ZERO
LOG, SHARE = target_pb2.TARGET_SCALE_LOG_PROBABILITY, target_pb2.TARGET_SCALE_PROBABILITY
SHAPLEY, OCCLUSION, INTEGRATED, GRADIENT, FROZEN = (
    attribution.AttributionMethod.Value(f"ATTRIBUTION_METHOD_{name}")
    for name in ("SHAPLEY", "OCCLUSION", "INTEGRATED_GRADIENTS", "GRADIENT", "FROZEN")
)
# Float32 on both sides; the two libraries add in different orders.
CLOSE = {"rtol": 0.0, "atol": 2e-5}


@dataclass(frozen=True)
class Case:
    """A question about a text, and the same number from transformers' own output."""

    model: str
    kind: Any
    texts: tuple[str, ...]
    target: dict[str, Any]
    number: Numbers


def span(text: str, word: str, segment: int = 0) -> dict[str, int]:
    start = text.index(word)
    return {"start": start, "end": start + len(word), "segment": segment}


plain_of = cache(Plain)


def masked(other: str | None, scale: int = 0) -> tuple[dict[str, Any], Numbers]:
    def number(output: Any, ids: list[int]) -> float:
        logits = output.logits[0, ids.index(MASKS["bert"])].double()
        scores = {0: logits, LOG: logits.log_softmax(-1), SHARE: logits.softmax(-1)}[scale]
        return float(scores[ENTRIES["cat"]] - (scores[ENTRIES["the"]] if other else 0))

    return {"mask": {"answer": "cat", "other": other}, "scale": scale}, number


def pooled(output: Any, ids: list[int]) -> float:
    vector = output.last_hidden_state[0].double().mean(dim=0)
    return float(torch.nn.functional.cosine_similarity(vector, VECTORS["other"], dim=0))


def answered(output: Any, ids: list[int], *, share: bool = False) -> float:
    """The answer is "cat", the third word of the passage's four, and the third piece from behind but two."""
    place = len(ids) - 1 - PASSAGE_TOKENS["after"]
    sides = (output.start_logits[0].double(), output.end_logits[0].double())
    if share:
        return float(np.exp(sum(float(side.log_softmax(-1)[place]) for side in sides)))
    return sum(float(side[place]) for side in sides)


def label_over_another(output: Any, ids: list[int]) -> float:
    return float(output.logits[0].double().softmax(-1) @ torch.tensor([-1.0, 1.0, 0.0]).double())


ENTRIES: dict[str, int] = {}
MASKS: dict[str, int] = {}
PASSAGE_TOKENS: dict[str, int] = {}
VECTORS: dict[str, torch.Tensor] = {}
MaskedLM, Sequences, Words = AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoModelForTokenClassification
Answers, NextSentence = AutoModelForQuestionAnswering, AutoModelForNextSentencePrediction
ANSWER = {"answer": {"answer": span(PASSAGE, "cat", 1)}}
WORD_LABEL = {"word_label": {"word": span(PLAIN, "cat"), "label": TAGS[1]}}
CASES = {
    "entry": Case("bert", MaskedLM, (MASKED,), *masked(None)),
    "entry over another": Case("bert", MaskedLM, (MASKED,), *masked("the")),
    "log of an entry": Case("bert", MaskedLM, (MASKED,), *masked(None, LOG)),
    "share of an entry": Case("bert", MaskedLM, (MASKED,), *masked("the", SHARE)),
    "label": Case(
        "sorter", Sequences, (PLAIN,), {"label": {"label": LABELS[1]}}, lambda output, ids: float(output.logits[0, 1])
    ),
    "label over another": Case(
        "sorter",
        Sequences,
        ("The cat", "sat."),
        {"label": {"label": LABELS[1], "other": LABELS[0]}, "scale": SHARE},
        label_over_another,
    ),
    "one of several labels": Case(
        "topics",
        Sequences,
        (PLAIN,),
        {"label": {"label": LABELS[2]}, "scale": LOG},
        lambda output, ids: float(torch.nn.functional.logsigmoid(output.logits[0, 2].double())),
    ),
    "word's label": Case("tagger", Words, (PLAIN,), WORD_LABEL, lambda output, ids: float(output.logits[0, 2, 1])),
    "answer": Case("answerer", Answers, (QUESTION, PASSAGE), ANSWER, answered),
    "share of an answer": Case(
        "answerer",
        Answers,
        (QUESTION, PASSAGE),
        ANSWER | {"scale": SHARE},
        lambda output, ids: answered(output, ids, share=True),
    ),
    "value": Case("rater", Sequences, (PLAIN,), {"value": {}}, lambda output, ids: float(output.logits[0, 0])),
    "similarity": Case("bert", AutoModel, (PLAIN,), {"similarity": {"other": {"text": OTHER}}}, pooled),
    "next sentence": Case(
        "related",
        NextSentence,
        ("The cat", "sat."),
        {"next_sentence": {}},
        lambda output, ids: float(output.logits[0, 0] - output.logits[0, 1]),
    ),
}


@pytest.fixture(scope="module")
def folders(
    checkpoints: dict[str, Path], sorters: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    related = write_checkpoint("bert", tmp_path_factory.mktemp("related") / "related", relates=True)
    found = {"bert": checkpoints["bert"], "related": related} | sorters
    plain = plain_of(found["bert"], AutoModel)
    ENTRIES.update({word: plain.tokenizer.convert_tokens_to_ids(word) for word in ("cat", "the")})
    MASKS["bert"] = plain.tokenizer.mask_token_id
    pieces = plain.tokenizer(PASSAGE, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    PASSAGE_TOKENS["after"] = sum(start >= PASSAGE.index("cat") for start, _ in pieces)
    VECTORS["other"] = plain.run(OTHER).last_hidden_state[0].double().mean(dim=0)
    return found


def asked(case: Case, **fields: Any) -> dict[str, Any]:
    text, pair = (*case.texts, None)[:2]
    return {"model": f"models/{case.model}", "inputs": [{"text": text, "text_pair": pair, "target": case.target}]} | fields


def ask(host: Host, case: Case, **fields: Any) -> Any:
    (found,) = call(host, "AttributeWords", **asked(case, **fields)).results
    return found


class Loop:
    """The number of a text with some of its words absent, one run of transformers for each set."""

    def __init__(self, case: Case, folder: Path, *, deleted: bool) -> None:
        self.case, self.deleted = case, deleted
        self.plain = plain_of(folder, case.kind)
        encoded = self.plain.tokenizer(*case.texts)
        self.ids, self.segments = encoded["input_ids"], encoded["token_type_ids"]
        self.mask = self.plain.tokenizer.mask_token_id
        which = list(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True))
        own = [word for word, token in zip(which, self.ids, strict=True) if word[0] is not None and token != self.mask]
        self.words = [[place for place, word in enumerate(which) if word == name] for name in dict.fromkeys(own)]
        self.known: dict[frozenset[int], float] = {}

    def value(self, present: frozenset[int]) -> float:
        if present not in self.known:
            absent = {place for word, places in enumerate(self.words) if word not in present for place in places}
            ids = [self.mask if place in absent else token for place, token in enumerate(self.ids)]
            kept = [place for place in range(len(ids)) if not (self.deleted and place in absent)]
            row = [ids[place] for place in kept]
            segments = [self.segments[place] for place in kept]
            with torch.no_grad():
                output = self.plain.model(input_ids=torch.tensor([row]), token_type_ids=torch.tensor([segments]))
            # With masks in their places, positions are those of the whole text.
            self.known[present] = self.case.number(output, row if self.deleted else self.ids)
        return self.known[present]

    def everything(self) -> float:
        return self.value(frozenset(range(len(self.words))))

    def shapley(self) -> list[float]:
        count = len(self.words)
        found = np.zeros(count)
        for order in permutations(range(count)):
            there: frozenset[int] = frozenset()
            for word in order:
                found[word] += self.value(there | {word}) - self.value(there)
                there |= {word}
        return list(found / factorial(count))

    def occlusion(self) -> list[float]:
        words = frozenset(range(len(self.words)))
        return [self.everything() - self.value(words - {word}) for word in range(len(self.words))]


DELETED_TOO = ("entry over another", "label over another", "similarity")


@pytest.mark.parametrize(("name", "deleted"), [*((name, False) for name in CASES), *((name, True) for name in DELETED_TOO)])
def test_values_are_those_of_loops_over_transformers(zoo: Host, folders: dict[str, Path], name: str, deleted: bool) -> None:
    case = CASES[name]
    absent = DELETED if deleted else MASK
    plain = Loop(case, folders[case.model], deleted=deleted)
    exact = ask(zoo, case, absent=absent)
    np.testing.assert_allclose(exact.values, plain.shapley(), **CLOSE)
    assert exact.value == pytest.approx(plain.everything(), abs=2e-5)
    assert exact.value_absent == pytest.approx(plain.value(frozenset()), abs=2e-5)
    assert abs(exact.rest) < 1e-9
    assert exact.evaluations == 2 ** len(plain.words) + (name == "similarity")
    one_by_one = ask(zoo, case, absent=absent, method=OCCLUSION)
    np.testing.assert_allclose(one_by_one.values, plain.occlusion(), **CLOSE)
    assert sum(one_by_one.values) + one_by_one.rest == pytest.approx(exact.value - exact.value_absent, abs=4e-5)
    sampled = ask(zoo, case, absent=absent, exact_units=0, pairs=60, seed=1)
    assert sampled.pairs == 60 and sum(sampled.values) == pytest.approx(exact.value - exact.value_absent, abs=4e-5)
    spread = np.sqrt(np.array(sampled.sums_of_squares) / 60 - np.square(sampled.values)) / np.sqrt(60)
    assert np.all(np.abs(np.array(sampled.values) - exact.values) < 6 * spread + 4e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_gradients_divide_the_same_number(zoo: Host, folders: dict[str, Path], name: str) -> None:
    """With masks for absent words, and with zeros. The numbers are those of transformers, and values that are left out are in
    `rest`."""
    case = CASES[name]
    plain = Loop(case, folders[case.model], deleted=False)
    ways = [(INTEGRATED, MASK), (INTEGRATED, ZERO), (GRADIENT, MASK), (GRADIENT, ZERO)]
    if not case.target.get("scale"):
        ways.append((FROZEN, ZERO))
    for method, absent in ways:
        one = ask(zoo, case, method=method, absent=absent, tolerance=0.001)
        assert len(one.values) == len(plain.words)
        assert one.value == pytest.approx(plain.everything(), abs=2e-5)
        assert sum(one.values) + one.rest == pytest.approx(one.value - one.value_absent, abs=1e-9)
        assert np.abs(one.values).max() > 1e-5
        assert one.HasField("completeness_error") == (method != FROZEN)
        assert method != FROZEN or one.value_absent == 0
        if absent == MASK:
            assert one.value_absent == pytest.approx(plain.value(frozenset()), abs=2e-5)
        if method == INTEGRATED:
            assert one.completeness_error <= 0.001 and one.steps >= 10
            size = max(abs(one.value - one.value_absent), 0.1 * np.abs(one.values).sum())
            assert one.evaluations == one.steps + 2 + (name == "similarity")
            assert absent == ZERO or abs(one.rest) <= 0.001 * size + 1e-9
        if (method, absent) == (GRADIENT, MASK):
            assert one.evaluations == 2 + (name == "similarity")


@pytest.mark.slow
def test_graphs_give_the_same(zoo: Host, loop: LoopThread, folders: dict[str, Path], export_cache: Path) -> None:
    """Gradients are of the PyTorch checkpoint where the model runs as graphs."""
    models = [f"{name}={folders[name]}" for name in ("bert", "sorter")]
    with launched(loop, model=models, runtime="onnx", cache_folder=export_cache) as graphs:
        for name in DELETED_TOO:
            for method in (SHAPLEY, GRADIENT):
                found, expected = (ask(host, CASES[name], method=method) for host in (graphs, zoo))
                np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-4)
                assert found.value == pytest.approx(expected.value, abs=1e-4)


def test_a_model_that_cannot_be_frozen_is_refused_by_name(loop: LoopThread, tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "bert", settings={"hidden_act": "sigmoid"})
    with launched(loop, model=[f"bert={folder}"]) as host:
        fields = asked(CASES["entry"], method=FROZEN)
        failure = refusal(host, "AttributeWords", code=grpc.StatusCode.UNIMPLEMENTED, **fields)
    assert failure.info.reason == "FREEZING_UNSUPPORTED"
    assert "hidden_act 'sigmoid'" in failure.message


@pytest.mark.parametrize("name", ["entry over another", "similarity"])
def test_interventions_act_in_every_row(
    zoo: Host, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = CASES[name]
    zeroed = Loop(case, folders[case.model], deleted=False)
    zeroed.plain = Plain(folders[case.model], case.kind)
    zeroed.plain.zero(1, 1)
    if name == "similarity":
        monkeypatch.setitem(VECTORS, "other", zeroed.plain.run(OTHER).last_hidden_state[0].double().mean(dim=0))
    changes = [{"layer": 1, "heads": [1], "mode": "MODE_ZERO"}]
    np.testing.assert_allclose(ask(zoo, case, interventions=changes).values, zeroed.shapley(), **CLOSE)
    assert not np.allclose(zeroed.shapley(), ask(zoo, case).values, **CLOSE)


@pytest.mark.slow
def test_texts_of_a_call_are_those_of_calls_of_their_own(zoo: Host) -> None:
    """Also with targets of several kinds, of other lengths, and with marked parts."""
    inputs = [
        {"text": MASKED, "target": CASES["entry"].target},
        {"text": PLAIN, "target": CASES["similarity"].target, "spans": [span(PLAIN, "cat sat")]},
        {"text": f"{MASKED} {PLAIN}", "target": CASES["share of an entry"].target},
    ]
    together = call(zoo, "AttributeWords", inputs=inputs, pairs=5).results
    assert [len(one.units) for one in together] == [4, 1, 9]
    for given, found in zip(inputs, together, strict=True):
        (alone,) = call(zoo, "AttributeWords", inputs=[given], pairs=5).results
        np.testing.assert_allclose(found.values, alone.values, **CLOSE)
        assert [unit.text for unit in found.units] == [unit.text for unit in alone.units]
    assert together[1].units[0].text == "cat sat"


@pytest.mark.slow
def test_pieces_and_the_models_own_choice(zoo: Host) -> None:
    def by_pieces(label: str) -> Any:
        case = Case("sorter", Sequences, (PLAIN,), {"label": {"label": label}}, CASES["label"].number)
        return ask(zoo, case, unit=attribution.ATTRIBUTION_UNIT_PIECE)

    found, best = by_pieces(""), max(map(by_pieces, LABELS[:3]), key=lambda one: one.value)
    assert (found.label, list(found.values)) == (best.label, pytest.approx(list(best.values), abs=2e-5))
    assert len(found.units) >= 5


def test_a_model_without_a_mask_token_is_told_what_it_can_do(
    loop: LoopThread, sorters: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(sorters["sorter"], tmp_path / "sorter"))
    path, settings_path = folder / "tokenizer.json", folder / "tokenizer_config.json"
    tokenizer, settings = json.loads(path.read_text("utf-8")), json.loads(settings_path.read_text("utf-8"))
    tokenizer["post_processor"] = None  # nothing is left without the words
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["content"] != settings["mask_token"]]
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["[OTHER]"] = vocabulary.pop(settings.pop("mask_token"))
    path.write_text(json.dumps(tokenizer), "utf-8")
    settings_path.write_text(json.dumps(settings | {"tokenizer_class": "PreTrainedTokenizerFast"}), "utf-8")
    with launched(loop, model=[str(folder)], runtime="torch") as host:
        failure = refusal(host, "AttributeWords", **asked(CASES["label"]))
        found = call(host, "AttributeWords", **asked(CASES["label"], method=INTEGRATED))
    assert failure.info.reason == "ABSENT_UNSUPPORTED"
    assert failure.message.endswith("the model has no mask token, so use a method with gradients")
    assert found.absent == ZERO and len(found.results[0].values) > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [{"int8": {}}, {"tokens": {"kept_shares": [1.0, 0.7, 0.5, 0.5]}}], ids=["int8", "drops tokens"]
)
def test_compressed_models_are_explained_by_their_own_answers(launch: Callable[..., Host], step: dict[str, Any]) -> None:
    """Occlusion is what FillMask says of the text with one mask more; Shapley values divide the same difference."""
    host, places = launch(), ("The", "on", "house", ".")
    call(host, "CompressModel", model="models/bert", model_id="small", steps=[step], timeout=LOAD_SECONDS)
    text = "The [MASK] sat on the house."
    texts = [text, *(text.replace(word, "[MASK]", 1) for word in places)]
    filled = call(host, "FillMask", model="models/small", texts=texts, candidates=["cat", "the"], logits=True)
    scores = []
    for given, found in zip(texts, filled.results, strict=True):
        mask = found.masks[int(given.startswith("[MASK]"))]
        logits = {one.token: one.logit for one in mask.predictions}
        scores.append(logits["cat"] - logits["the"])
    given = {"text": text, "target": masked("the")[0], "spans": [span(text, word) for word in places]}
    fields: dict[str, Any] = {"model": "models/small", "inputs": [given]}
    (occluded,) = call(host, "AttributeWords", **fields, method=OCCLUSION).results
    np.testing.assert_allclose(occluded.values, np.array(scores[0]) - scores[1:], rtol=0, atol=1e-4)
    (exact,) = call(host, "AttributeWords", **fields).results
    assert sum(exact.values) == pytest.approx(occluded.value - occluded.value_absent, abs=1e-4)
    failure = refusal(host, "AttributeWords", code=grpc.StatusCode.UNIMPLEMENTED, **fields, method=INTEGRATED)
    assert failure.info.reason == "NO_GRADIENTS"
