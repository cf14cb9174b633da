"""ScoreTexts through gRPC: the scores of a loop over masked copies; and CompareTexts: outcomes are those of the scores, ties
are exact."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from bertscope.v1 import cloze_scores_pb2 as scores
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


UNUSED = grpc.StatusCode.INVALID_ARGUMENT
RIGHT, TIE, WRONG = (scores.ComparedSet.Outcome.Value(f"OUTCOME_{name}") for name in ("RIGHT", "TIE", "WRONG"))
PAIRS = [
    ("The keys to the cabinet are old.", "The keys to the cabinet is old."),
    ("The dog walked to the market.", "The dog walked market to the."),
    ("Nobody waited.", "Nobody unplayable."),
    ("She plays the violin.", "She play the violin."),
]


def text_set(*texts: str, **fields: Any) -> scores.TextSet:
    return scores.TextSet(texts=[scores.ScoredInput(text=text) for text in texts], **fields)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "scoring"), [("models/bert", 0), ("models/roberta", 1), ("models/bert", 3)])
def test_outcomes_are_those_of_the_scores(host: Host, model: str, scoring: int) -> None:
    sets = [text_set(*pair, groups=["a"]) for pair in PAIRS]
    sets += [text_set(*pair[::-1], groups=["b", "a"]) for pair in PAIRS]
    sets += [text_set(*SENTENCES[:5], right=3, groups=["b"]), text_set("The cat sat.", "The cat sat.")]
    reply = call(host, "CompareTexts", sets=sets, model=model, scoring=scoring)
    inputs = [text for one in sets for text in one.texts]
    found = iter(call(host, "ScoreTexts", model=model, inputs=inputs, scoring=scoring).results)
    outcomes, differences = [], []
    for one, result in zip(sets, reply.results, strict=True):
        alone = [next(found) for _ in one.texts]
        expected = [score.log_likelihood for score in alone]
        assert list(result.log_likelihoods) == pytest.approx(expected, rel=1e-5)
        assert list(result.scored_pieces) == [score.scored_pieces for score in alone]
        right = expected.pop(one.right)
        differences.append(result.log_likelihoods[one.right] - max(expected))
        outcomes.append(RIGHT if right > max(expected) else WRONG if right < max(expected) else TIE)
    assert [result.outcome for result in reply.results] == outcomes
    assert outcomes[-1] == TIE
    assert reply.scoring == (scoring or 2)
    members = {"": range(len(sets)), "a": range(8), "b": range(4, 9)}
    assert [counts.group for counts in reply.counts] == list(members)
    for counts in reply.counts:
        chosen = [outcomes[index] for index in members[counts.group]]
        assert (counts.right, counts.tied, counts.wrong) == (chosen.count(RIGHT), chosen.count(TIE), chosen.count(WRONG))
        its = [differences[index] for index in members[counts.group]]
        assert counts.difference_sum == pytest.approx(sum(its), abs=1e-3)
        assert counts.difference_squares == pytest.approx(sum(value**2 for value in its), rel=1e-3)


def test_critical_regions(host: Host) -> None:
    critical = text_set(*PAIRS[0])
    for text, word in zip(critical.texts, ("are", "is"), strict=True):
        start = text.text.index(word)
        text.spans.add(start=start, end=start + len(word))
    (region,) = call(host, "CompareTexts", sets=[critical]).results
    assert list(region.scored_pieces) == [1, 1]
