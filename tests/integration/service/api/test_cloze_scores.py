"""ScoreTexts through gRPC: the scores of a loop over masked copies, and what can't be scored is refused by its field."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from bertscope.v1 import cloze_scores_pb2 as scores
from bertscope.v1 import common_pb2
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.support.harness import CALL_SECONDS, Host, refused
from tests.support.tiny import SENTENCES

INVALID = grpc.StatusCode.INVALID_ARGUMENT
TEXTS = [*SENTENCES, "The unplayable song [MASK] recorded."]
LOOPED = [SENTENCES[0], SENTENCES[3], "The unplayable song [MASK] recorded."]
ORIGINAL, WITHIN, WHOLE = range(1, 4)


def given(text: str, pair: str | None = None, spans: Sequence[tuple[int, ...]] = (), **fields: Any) -> scores.ScoredInput:
    marked = [common_pb2.CharacterSpan(start=start, end=end, segment=sum(segment)) for start, end, *segment in spans]
    return scores.ScoredInput(text=text, text_pair=pair, spans=marked, **fields)


def score(host: Host, inputs: Sequence[scores.ScoredInput], **fields: Any) -> scores.ScoreTextsResponse:
    reply = host.cloze.ScoreTexts(scores.ScoreTextsRequest(inputs=inputs, **fields), timeout=CALL_SECONDS)
    assert isinstance(reply, scores.ScoreTextsResponse)
    return reply


class Loop:
    """Scores of Salazar et al. 2020 and Kauf and Ivanova 2023, one masked copy at a time, summed in float64."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()

    @torch.no_grad()
    def logs(self, scoring: int, *texts: str) -> list[float]:
        mask, found = self.tokenizer.mask_token_id, []
        encoded = self.tokenizer(*(text.replace("[MASK]", self.tokenizer.mask_token) for text in texts), return_tensors="pt")
        words = list(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True))
        for place, word in enumerate(words):
            token = encoded["input_ids"][0, place].item()
            if word[0] is None or token == mask:
                continue
            same = [other for other, its_word in enumerate(words) if its_word == word]
            hidden = {ORIGINAL: [place], WITHIN: [other for other in same if other >= place], WHOLE: same}[scoring]
            masked = {name: values.clone() for name, values in encoded.items()}
            masked["input_ids"][0, hidden] = mask
            found.append(self.model(**masked).logits[0, place].double().log_softmax(-1)[token].item())
        return found


@pytest.mark.slow
@pytest.mark.parametrize("scoring", [ORIGINAL, WITHIN, WHOLE])
@pytest.mark.parametrize("model", ["bert", "roberta"])
def test_scores_are_those_of_a_loop(host: Host, checkpoints: dict[str, Path], model: str, scoring: int) -> None:
    loop = Loop(checkpoints[model])
    pair = ("The cat sat.", "A dog, too.")
    inputs = [*(given(text) for text in LOOPED), given(*pair)]
    reply = score(host, inputs, model=f"models/{model}", scoring=scoring, pieces=True)
    for texts, result in zip([*((text,) for text in LOOPED), pair], reply.results, strict=True):
        expected = loop.logs(scoring, *texts)
        assert [piece.log_probability for piece in result.pieces] == pytest.approx(expected, abs=1e-4)
        assert result.log_likelihood == pytest.approx(sum(expected), abs=1e-4 * len(expected))
        assert result.log_likelihood == pytest.approx(sum(piece.log_probability for piece in result.pieces), abs=1e-9)
        assert result.scored_pieces == len(expected) == len(result.pieces)
        assert result.scored_words == len({(piece.segment, piece.word) for piece in result.pieces})
        for piece in result.pieces:
            assert piece.text == loop.tokenizer.convert_ids_to_tokens(piece.id)
            assert texts[piece.segment][piece.start : piece.end] == texts[piece.segment][piece.start : piece.end].strip()
    assert reply.scoring == scoring
    assert reply.provenance.model == f"models/{model}"


def test_the_scoring_is_within_words_unless_asked(host: Host) -> None:
    inputs = [given("The unplayable song.")]
    usual, original, within, whole = (score(host, inputs, scoring=number) for number in range(4))
    assert usual.results[0].log_likelihood == within.results[0].log_likelihood
    assert (usual.scoring, original.scoring, whole.scoring) == (WITHIN, ORIGINAL, WHOLE)
    assert len({reply.results[0].log_likelihood for reply in (original, within, whole)}) == 3
    assert not usual.results[0].pieces


@pytest.mark.slow
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


def test_the_work_of_a_call_is_bounded(launch: Callable[..., Host]) -> None:
    small = launch(max_request_tokens=1000)
    assert score(small, [given("The cat sat.")]).results
    with refused(INVALID) as failures:
        score(small, [given(SENTENCES[-1])])
    assert (failures[0].fields, failures[0].info.reason) == (["inputs"], "TOO_MANY_TOKENS")
    assert failures[0].info.metadata["limit"] == "1000"
    assert "max_words" in failures[0].message
    assert score(small, [given(SENTENCES[-1], max_words=2)]).results[0].scored_words == 2
