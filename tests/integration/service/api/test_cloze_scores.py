"""ScoreTexts through gRPC: the scores of a loop over masked copies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.plain import Plain
from tests.support.tiny import SENTENCES

TEXTS = [*SENTENCES, "The unplayable song [MASK] recorded."]
LOOPED = [(SENTENCES[0],), (SENTENCES[3],), ("The unplayable song [MASK] recorded.",), ("The cat sat.", "A dog, too.")]
ORIGINAL, WITHIN, WHOLE = range(1, 4)


def score(host: Host, inputs: Sequence[dict[str, Any]], **fields: Any) -> Any:
    return call(host, "ScoreTexts", inputs=inputs, **fields)


@torch.no_grad()
def loop(plain: Plain, scoring: int, *texts: str) -> list[float]:
    """Scores of Salazar et al. 2020 and Kauf and Ivanova 2023, one masked copy at a time, in float64."""
    mask, found = plain.tokenizer.mask_token_id, []
    encoded = plain.encode(*texts)
    words = list(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True))
    for place, word in enumerate(words):
        token = encoded["input_ids"][0, place].item()
        if word[0] is None or token == mask:
            continue
        same = [other for other, its_word in enumerate(words) if its_word == word]
        hidden = {ORIGINAL: [place], WITHIN: [other for other in same if other >= place], WHOLE: same}[scoring]
        masked = {name: values.clone() for name, values in encoded.items()}
        masked["input_ids"][0, hidden] = mask
        found.append(plain.model(**masked).logits[0, place].double().log_softmax(-1)[token].item())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("scoring", [ORIGINAL, WITHIN, WHOLE])
@pytest.mark.parametrize("model", ["bert", "roberta"])
def test_scores_are_those_of_a_loop(host: Host, checkpoints: dict[str, Path], model: str, scoring: int) -> None:
    plain = Plain(checkpoints[model], AutoModelForMaskedLM)
    inputs = [dict(zip(("text", "text_pair"), texts, strict=False)) for texts in LOOPED]
    reply = score(host, inputs, model=f"models/{model}", scoring=scoring, pieces=True)
    for texts, result in zip(LOOPED, reply.results, strict=True):
        expected = loop(plain, scoring, *texts)
        assert [piece.log_probability for piece in result.pieces] == pytest.approx(expected, abs=1e-4)
        assert result.log_likelihood == pytest.approx(sum(expected), abs=1e-4 * len(expected))
        assert result.log_likelihood == pytest.approx(sum(piece.log_probability for piece in result.pieces), abs=1e-9)
        assert result.scored_pieces == len(expected) == len(result.pieces)
        assert result.scored_words == len({(piece.segment, piece.word) for piece in result.pieces})
        for piece in result.pieces:
            assert piece.text == plain.tokenizer.convert_ids_to_tokens(piece.id)
            assert texts[piece.segment][piece.start : piece.end] == texts[piece.segment][piece.start : piece.end].strip()
    assert reply.scoring == scoring
    assert reply.provenance.model == f"models/{model}"


def test_the_scoring_is_within_words_unless_asked(host: Host) -> None:
    usual, original, within, whole = (score(host, [{"text": "The unplayable song."}], scoring=number) for number in range(4))
    assert usual.results[0].log_likelihood == within.results[0].log_likelihood
    assert (usual.scoring, original.scoring, whole.scoring) == (WITHIN, ORIGINAL, WHOLE)
    assert len({reply.results[0].log_likelihood for reply in (original, within, whole)}) == 3
    assert not usual.results[0].pieces


@pytest.mark.slow
def test_a_call_is_the_same_text_by_text_and_in_parts(host: Host) -> None:
    together = [result.log_likelihood for result in score(host, [{"text": text} for text in TEXTS]).results]
    alone = [score(host, [{"text": text}]).results[0].log_likelihood for text in TEXTS]
    assert together == pytest.approx(alone, rel=1e-5)
    for text, whole in zip(TEXTS[-3:], together[-3:], strict=True):
        results = score(host, [{"text": text, "skip_words": start, "max_words": 4} for start in range(0, 60, 4)]).results
        assert sum(result.log_likelihood for result in results) == pytest.approx(whole, rel=1e-5)
        assert (results[-1].scored_pieces, results[-1].scored_words, results[-1].tokens) == (0, 0, results[0].tokens)


def test_a_part_is_scored_with_the_rest_as_context(host: Host) -> None:
    text = "The keys to the cabinet are old."
    start = text.index("are")
    marked = {"text": text, "spans": [{"start": start, "end": start + 3}]}
    paired = {"text": text, "text_pair": "The cat sat.", "spans": [{"start": 4, "end": 7, "segment": 1}]}
    whole, part, second = score(host, [{"text": text}, marked, paired], pieces=True).results
    (verb,) = [piece.log_probability for piece in whole.pieces if piece.start == start]
    assert (part.log_likelihood, part.scored_pieces) == (pytest.approx(verb, abs=1e-5), 1)
    assert {(piece.segment, piece.start) for piece in second.pieces} == {(1, 4)}


def test_a_long_text_is_cut_if_asked(host: Host) -> None:
    (result,) = score(host, [{"text": "cat " * 100}], truncate=True).results
    assert (result.tokens, result.truncated_tokens, result.scored_pieces) == (64, 38, 62)
