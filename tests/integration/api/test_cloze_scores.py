"""ScoreTexts through gRPC: the scores of a loop over masked copies, and what can't be scored is refused by its field."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import cloze_scores_pb2 as scores
from bertscope.v1 import common_pb2
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.support.exports import load_exported
from tests.support.harness import CALL_SECONDS, Host, LoopThread, held, interactive_rows_wait, launched, refused
from tests.support.patience import wait_until
from tests.support.tiny import SENTENCES

INVALID = grpc.StatusCode.INVALID_ARGUMENT
TEXTS = [*SENTENCES, "The unplayable song [MASK] recorded."]
ORIGINAL, WITHIN, WHOLE = range(1, 4)


@pytest.fixture(scope="module", autouse=True)
def next_request_is_answered(host: Host, check_alive: Callable[[Host], None]) -> Iterator[None]:
    yield
    check_alive(host)


def given(text: str, pair: str | None = None, spans: Sequence[tuple[int, ...]] = (), **fields: Any) -> scores.ScoredInput:
    marked = [common_pb2.CharacterSpan(start=start, end=end, segment=sum(segment)) for start, end, *segment in spans]
    return scores.ScoredInput(text=text, text_pair=pair, spans=marked, **fields)


def score(host: Host, inputs: Sequence[scores.ScoredInput], **fields: Any) -> scores.ScoreTextsResponse:
    reply = host.cloze.ScoreTexts(scores.ScoreTextsRequest(inputs=inputs, **fields), timeout=CALL_SECONDS)
    assert isinstance(reply, scores.ScoreTextsResponse)
    return reply


class Loop:
    """Salazar's score, one masked copy at a time, summed in float64."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()

    @torch.no_grad()
    def logs(self, *texts: str) -> list[float]:
        mask = self.tokenizer.mask_token
        encoded = self.tokenizer(*(text.replace("[MASK]", mask) for text in texts), return_tensors="pt")
        found = []
        for place, word in enumerate(encoded.word_ids()):
            token = encoded["input_ids"][0, place].item()
            if word is not None and token != self.tokenizer.mask_token_id:
                masked = {name: values.clone() for name, values in encoded.items()}
                masked["input_ids"][0, place] = self.tokenizer.mask_token_id
                found.append(self.model(**masked).logits[0, place].double().log_softmax(-1)[token].item())
        return found


@pytest.mark.parametrize("model", ["bert", "roberta"])
def test_scores_are_those_of_a_loop(host: Host, checkpoints: dict[str, Path], model: str) -> None:
    loop = Loop(checkpoints[model])
    pair = ("The cat sat.", "A dog, too.")
    inputs = [*(given(text) for text in TEXTS), given(*pair)]
    reply = score(host, inputs, model=f"models/{model}", scoring=ORIGINAL, pieces=True)
    for texts, result in zip([*((text,) for text in TEXTS), pair], reply.results, strict=True):
        expected = loop.logs(*texts)
        assert [piece.log_probability for piece in result.pieces] == pytest.approx(expected, abs=1e-4)
        assert result.log_likelihood == pytest.approx(sum(expected), abs=1e-4 * len(expected))
        assert result.log_likelihood == pytest.approx(sum(piece.log_probability for piece in result.pieces), abs=1e-9)
        assert result.scored_pieces == len(expected) == len(result.pieces)
        assert result.scored_words == len({(piece.segment, piece.word) for piece in result.pieces})
        for piece in result.pieces:
            assert piece.text == loop.tokenizer.convert_ids_to_tokens(piece.id)
            assert texts[piece.segment][piece.start : piece.end] == texts[piece.segment][piece.start : piece.end].strip()
    assert reply.scoring == ORIGINAL
    assert reply.provenance.model == f"models/{model}"


def test_the_scoring_is_within_words_unless_asked(host: Host) -> None:
    inputs = [given("The unplayable song.")]
    usual, original, within, whole = (score(host, inputs, scoring=number) for number in range(4))
    assert usual.results[0].log_likelihood == within.results[0].log_likelihood
    assert (usual.scoring, original.scoring, whole.scoring) == (WITHIN, ORIGINAL, WHOLE)
    assert len({reply.results[0].log_likelihood for reply in (original, within, whole)}) == 3
    assert not usual.results[0].pieces


def test_a_call_is_the_same_text_by_text_and_in_parts(host: Host) -> None:
    together = [result.log_likelihood for result in score(host, list(map(given, TEXTS))).results]
    alone = [score(host, [given(text)]).results[0].log_likelihood for text in TEXTS]
    assert together == pytest.approx(alone, rel=1e-5)
    for text, whole in zip(TEXTS[-3:], together[-3:], strict=True):
        parts = [given(text, skip_words=start, max_words=4) for start in range(0, 60, 4)]
        results = score(host, parts).results
        assert sum(result.log_likelihood for result in results) == pytest.approx(whole, rel=1e-5)
        assert (results[-1].scored_pieces, results[-1].scored_words, results[-1].tokens) == (0, 0, results[0].tokens)


def test_a_part_is_scored_with_the_rest_as_context(host: Host) -> None:
    text = "The keys to the cabinet are old."
    start = text.index("are")
    whole, part = score(host, [given(text), given(text, spans=[(start, start + 3)])], pieces=True).results
    (verb,) = [piece.log_probability for piece in whole.pieces if piece.start == start]
    assert (part.log_likelihood, part.scored_pieces) == (pytest.approx(verb, abs=1e-5), 1)
    (second,) = score(host, [given(text, "The cat sat.", spans=[(4, 7, 1)])], pieces=True).results
    assert {(piece.segment, piece.start) for piece in second.pieces} == {(1, 4)}


def test_interventions_and_means(host: Host) -> None:
    inputs = [given("The unplayable song.")]
    plain = score(host, inputs).results[0].log_likelihood
    zeroed = score(host, inputs, interventions=[common_pb2.HeadIntervention(layer=1, mode=1)]).results[0].log_likelihood
    mean = common_pb2.HeadIntervention(layer=1, mode=common_pb2.HeadIntervention.MODE_MEAN)
    meant = score(host, inputs, interventions=[mean], reference_texts=["The cat sat."]).results[0].log_likelihood
    assert len({plain, zeroed, meant}) == 3


def test_a_long_text_is_cut_if_asked(host: Host) -> None:
    (result,) = score(host, [given("cat " * 100)], truncate=True).results
    assert (result.tokens, result.truncated_tokens, result.scored_pieces) == (64, 38, 62)


def test_both_runtimes_give_the_same(loop: LoopThread, host: Host, checkpoints: dict[str, Path], export_cache: Path) -> None:
    load_exported(checkpoints["bert"], export_cache)
    inputs = list(map(given, TEXTS))
    expected = score(host, inputs, scoring=WHOLE, pieces=True).results
    with launched(loop, model=[f"bert={checkpoints['bert']}"], runtime="onnx", cache_folder=export_cache) as graphs:
        reply = score(graphs, inputs, scoring=WHOLE, pieces=True)
    assert reply.provenance.runtime == common_pb2.RUNTIME_ONNX
    for found, result in zip(reply.results, expected, strict=True):
        logs = [piece.log_probability for piece in found.pieces]
        assert logs == pytest.approx([piece.log_probability for piece in result.pieces], abs=1e-4)


def test_the_work_of_a_call_is_bounded(launch: Callable[..., Host]) -> None:
    small = launch(max_request_tokens=1000)
    assert score(small, [given("The cat sat.")]).results
    with refused(INVALID) as failures:
        score(small, [given(SENTENCES[-1])])
    assert (failures[0].fields, failures[0].info.reason) == (["inputs"], "TOO_MANY_TOKENS")
    assert failures[0].info.metadata["limit"] == "1000"
    assert "max_words" in failures[0].message
    assert score(small, [given(SENTENCES[-1], max_words=2)]).results[0].scored_words == 2


GOOD = given("The cat sat.")
BAD: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "no text": ("inputs", "NO_TEXT", "give at least one text", {"inputs": []}),
    "too many texts": ("inputs", "TOO_MANY_TEXTS", "in parts", {"inputs": [GOOD] * 257}),
    "empty text": ("inputs[1].text", "EMPTY_TEXT", "write some text", {"inputs": [GOOD, given(" ")]}),
    "empty pair": ("inputs[0].text_pair", "EMPTY_TEXT", "write some text", {"inputs": [given("a", "")]}),
    "nothing to score": ("inputs[1].text", "EMPTY_TEXT", "could be scored", {"inputs": [GOOD, given("[MASK]")]}),
    "too long": ("inputs[1]", "TEXT_TOO_LONG", "set truncate", {"inputs": [GOOD, given("cat " * 70)]}),
    "scoring": ("scoring", "UNKNOWN_SCORING", "PseudoLogLikelihood", {"scoring": 4}),
    "outside": (
        "inputs[0].spans[0].end",
        "SPAN_OUT_OF_RANGE",
        "12 code points",
        {"inputs": [given(GOOD.text, None, [(4, 13)])]},
    ),
    "empty span": ("inputs[0].spans[1]", "EMPTY_SPAN", "one past", {"inputs": [given(GOOD.text, None, [(0, 3), (4, 4)])]}),
    "no second text": (
        "inputs[0].spans[0].segment",
        "SEGMENT_OUT_OF_RANGE",
        "has one text",
        {"inputs": [given(GOOD.text, None, [(0, 3, 1)])]},
    ),
    "overlap": (
        "inputs[1].spans[0]",
        "SPANS_OVERLAP",
        "join them",
        {"inputs": [GOOD, given(GOOD.text, None, [(5, 8), (0, 6)])]},
    ),
    "no piece": ("inputs[0].spans[0]", "NO_PIECE", "whole words", {"inputs": [given("The [MASK] sat.", None, [(4, 10)])]}),
    "cut away": (
        "inputs[0].spans[1]",
        "SPAN_TRUNCATED",
        "shorten the text",
        {"inputs": [given("cat " * 100, None, [(0, 3), (396, 399)])], "truncate": True},
    ),
    "too many spans": (
        "inputs[0].spans",
        "TOO_MANY_SPANS",
        "may have 1000",
        {"inputs": [given("a " * 2000, None, [(2 * place, 2 * place + 1) for place in range(1001)])]},
    ),
    "no words": ("inputs[0].max_words", "WORDS_OUT_OF_RANGE", "leave it out", {"inputs": [given("a", max_words=0)]}),
    "unused reference texts": ("reference_texts", "REFERENCE_TEXTS_UNUSED", "", {"reference_texts": ["a"]}),
}


@pytest.mark.parametrize(("field", "reason", "words", "fields"), BAD.values(), ids=BAD)
def test_bad_requests(host: Host, field: str, reason: str, words: str, fields: dict[str, Any]) -> None:
    with refused(INVALID) as failures:
        score(host, **{"inputs": [GOOD], **fields})
    assert failures[0].fields == [field]
    assert failures[0].info.reason == reason
    assert words in failures[0].message


def test_a_model_without_a_head_can_not_score(host: Host) -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        score(host, [GOOD], model="models/headless")
    assert failures[0].info.reason == "NO_MASKED_LM_HEAD"


@pytest.mark.slow
def test_masks_are_filled_beside_a_long_scoring(launch: Callable[..., Host]) -> None:
    """A query of masks needs the batch that runs, its own, and at most one that bulk rows get for their patience. Neither
    changes the other's answer."""
    host = launch(batch_tokens=64)
    request = scores.ScoreTextsRequest(inputs=map(given, SENTENCES), pieces=True)
    texts = ["The [MASK] sat.", "Paris is the capital of [MASK]."]

    def fill(stub: Any, text: str) -> Any:
        return stub.FillMask.future(cloze.FillMaskRequest(texts=[text], top_k=3), timeout=CALL_SECONDS)

    with host.connect() as channel:
        others = type(host.cloze)(channel)
        stubs = (host.cloze, others)
        with held(host) as gate:
            scoring: Any = host.cloze.ScoreTexts.future(request, timeout=3 * CALL_SECONDS)
            beside = []
            for number in range(6):
                wait_until(lambda ran=3 * number: gate.arrived > ran, "a batch of the scoring runs")
                answer = fill(stubs[number % 2], texts[number % 2])
                wait_until(lambda: interactive_rows_wait(host), "the query waits")
                gate.let_through(3)
                beside.append(answer.result())
                assert not scoring.done()
            gate.let_through()
            scored = scoring.result()
        alone = [fill(stub, text).result() for stub, text in zip(stubs, texts, strict=True)]
    for number, reply in enumerate(beside):
        assert_same(reply, alone[number % 2])
    assert_same(scored, host.cloze.ScoreTexts(request, timeout=CALL_SECONDS))


NUMBER = re.compile(r"-?\d+\.\d+(?:e-\d+)?")


def assert_same(one: Any, other: Any) -> None:
    """Replies are the same, their numbers as far as the batch that a row shared leaves them alone."""
    assert NUMBER.sub("", str(one)) == NUMBER.sub("", str(other))
    values = [[float(value) for value in NUMBER.findall(str(each))] for each in (one, other)]
    assert values[0] == pytest.approx(values[1], rel=1e-4)
