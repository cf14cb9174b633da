"""Scores of texts against a loop over masked copies of each text in plain transformers, for every architecture."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.pseudo_likelihood import ScoredInput, ScorePlan, ScoreQuery, TextScore
from bertscope_service.analyses.words import Span
from bertscope_service.encoders.edits import Edits
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from transformers import AutoTokenizer

from tests.support.quick import slow_but
from tests.support.reference import EDITS, HeadEdits, Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.runner import run_rows
from tests.support.subjects import on_three
from tests.support.tiny import SENTENCES

LONG = f"{SENTENCES[-1]} {SENTENCES[3]}"
PAIR = ("The keys to the cabinet are old.", "Berlin is the capital of Germany, isn't it?")
INPUTS: tuple[tuple[str, str | None], ...] = (
    *((text, None) for text in SENTENCES),
    PAIR,
    ("The unplayable song.", "The unplayable violin."),
    ("The old [MASK] walked to the market.", None),
)


def given(text: str, pair: str | None = None, *spans: Span, skip: int = 0, most: int | None = None) -> ScoredInput:
    return ScoredInput(text, pair, spans, skip, most, "inputs[0]")


def plan(
    subject: Subject,
    inputs: Sequence[ScoredInput],
    scoring: Scoring = Scoring.WITHIN_WORD,
    *,
    truncate: bool = False,
    most: int = 10**6,
) -> ScorePlan:
    named = tuple(replace(one, field=f"inputs[{index}]") for index, one in enumerate(inputs))
    return ScorePlan(ScoreQuery(named, scoring, truncate, most, pieces=True), subject.tokenizer)


def rows_of(made: ScorePlan) -> list[tuple[object, object]]:
    return list(zip(made.masked.sequences, made.masked.observers, strict=True))


def scores(subject: Subject, made: ScorePlan, gates: Edits | None = None, *, batch: int = 5) -> list[TextScore]:
    return made.answer(run_rows(subject.encoder, rows_of(made), gates, batch=batch))  # type: ignore[arg-type]


class Loop:
    """The definitions of Salazar et al. 2020 and Kauf and Ivanova 2023, one masked copy at a time, summed in float64."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.tokenizer = AutoTokenizer.from_pretrained(subject.folder)

    def logs(self, text: str, pair: str | None, scoring: Scoring, edits: HeadEdits | None = None) -> list[float]:
        mask = self.tokenizer.mask_token
        encoded = self.tokenizer(*(part.replace("[MASK]", mask) for part in (text, pair) if part is not None))
        ids, words = encoded["input_ids"], list(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True))
        sequence = self.subject.tokenizer.encode(text, pair).sequence
        found = []
        for place, word in enumerate(words):
            if word[0] is None or ids[place] == self.tokenizer.mask_token_id:
                continue
            same = [other for other, its_word in enumerate(words) if its_word == word]
            hidden = {
                Scoring.ORIGINAL: [place],
                Scoring.WITHIN_WORD: [other for other in same if other >= place],
                Scoring.WHOLE_WORD: same,
            }[scoring]
            copy = [self.tokenizer.mask_token_id if other in hidden else token for other, token in enumerate(ids)]
            row = replace(sequence, ids=copy)
            outputs = self.subject.reference.run([row]) if edits is None else self.subject.reference.run_edited(row, edits)
            found.append(float(outputs.logits[0, place].double().log_softmax(dim=-1)[ids[place]]))
        return found


@pytest.mark.parametrize("scoring", slow_but(Scoring, Scoring.ORIGINAL))
def test_scores_equal_those_of_a_loop_in_transformers(subject: Subject, scoring: Scoring) -> None:
    loop, made = Loop(subject), plan(subject, [given(*entry) for entry in INPUTS], scoring)
    for (text, pair), score in zip(INPUTS, scores(subject, made), strict=True):
        expected = loop.logs(text, pair, scoring)
        assert score.logs == pytest.approx(expected, abs=BOTH_SIDES)
        assert score.log_likelihood == pytest.approx(sum(expected), abs=BOTH_SIDES * len(expected))
        assert score.log_likelihood == pytest.approx(score.logs.sum(), abs=1e-9)


@on_three
@pytest.mark.parametrize("name", ["zero", "uniform-layer", "mixed"])
def test_interventions(subject: Subject, name: str) -> None:
    loop, edits = Loop(subject), EDITS[name]
    text, pair = PAIR
    (score,) = scores(subject, plan(subject, [given(text, pair)]), subject.gates(edits))
    assert score.logs == pytest.approx(loop.logs(text, pair, Scoring.WITHIN_WORD, edits), abs=BOTH_SIDES)


@pytest.mark.slow
@pytest.mark.parametrize("scoring", Scoring)
def test_a_text_scores_the_same_alone_and_in_any_batch(subject: Subject, scoring: Scoring) -> None:
    inputs = [given(*entry) for entry in INPUTS]
    together = scores(subject, plan(subject, inputs, scoring), batch=13)
    for entry, score in zip(inputs, together, strict=True):
        (alone,) = scores(subject, plan(subject, [entry], scoring), batch=1)
        assert score.logs == pytest.approx(alone.logs, rel=1e-5, abs=1e-5)


def test_scorings_are_the_same_where_each_word_is_one_piece(subject: Subject) -> None:
    made = {scoring: plan(subject, [given(SENTENCES[1])], scoring) for scoring in Scoring}
    if any(len(word.pieces) > 1 for word in made[Scoring.ORIGINAL].words[0]):
        (first, *others) = (plan(subject, [given("the")], scoring) for scoring in Scoring)
    else:
        first, *others = made.values()
    assert all(len(word.pieces) == 1 for word in first.words[0])
    (wanted,) = scores(subject, first)
    for other in others:
        (found,) = scores(subject, other)
        assert found.logs == pytest.approx(wanted.logs, rel=1e-5, abs=1e-5)


@on_three
def test_a_word_that_is_wholly_masked_takes_one_row(subject: Subject) -> None:
    entry = given("Unrecognizably mixed, the unplayable songs outsold the originals.")
    made = plan(subject, [entry], Scoring.WHOLE_WORD)
    assert len(made.masked) == len(made.words[0]) < made.masked.pieces
    assert len(plan(subject, [entry]).masked) == made.masked.pieces


@on_three
def test_the_same_rows_run_once(subject: Subject) -> None:
    """The sentences of a minimal pair differ in one word, and have the row in common in which that word is masked."""
    pair = [given("The dog saw the cat."), given("The dog saw the dog.")]
    alone = [len(plan(subject, [one], Scoring.WHOLE_WORD).masked) for one in pair]
    together = plan(subject, pair, Scoring.WHOLE_WORD)
    assert len(together.masked) == sum(alone) - 1
    shared = [observer for observer in together.masked.observers if observer.golds.shape[1] == 2]
    assert len(shared) == 1
    apart = [scores(subject, plan(subject, [one], Scoring.WHOLE_WORD))[0].logs for one in pair]
    for score, expected in zip(scores(subject, together), apart, strict=True):
        assert score.logs == pytest.approx(expected, rel=1e-5, abs=1e-5)
    same = plan(subject, [pair[0]] * 3)
    assert len(same.masked) == len(plan(subject, pair[:1]).masked)
    first, *others = scores(subject, same)
    assert all(np.array_equal(first.logs, other.logs) for other in others)


@on_three
def test_segments_tell_rows_apart(subject: Subject) -> None:
    """The second text of a pair is read otherwise than the same text alone."""
    alone, second = scores(subject, plan(subject, [given("The cat sat."), given("The cat.", "The cat sat.")]))
    assert not np.allclose(alone.logs, second.logs[-len(alone.logs) :])


@on_three
def test_rows_are_built_on_access_and_sorted_by_length(subject: Subject) -> None:
    made = plan(subject, [given(*entry) for entry in INPUTS])
    lengths = [len(row) for row in made.masked.sequences]
    assert lengths == sorted(lengths) == made.masked.lengths
    assert made.masked.tokens == sum(lengths)
    assert [list(row.ids) for row in made.masked.sequences[3:7]] == [list(made.masked.sequence(row).ids) for row in range(3, 7)]
    assert made.reply_bytes > 8 * made.masked.pieces


@on_three
def test_parts_are_scored_with_the_rest_as_context(subject: Subject) -> None:
    text, pair = PAIR
    (whole,) = scores(subject, whole_plan := plan(subject, [given(text, pair)]))
    keys = text.index("keys")
    verb, capital = Span(text.index("are"), text.index("are") + 3, 0), Span(pair.index("capital"), len(pair), 1)
    made = plan(subject, [given(text, pair, capital, verb), given(text, pair, Span(keys, keys + 1, 0))])
    wanted = [
        [log for piece, log in zip(whole_plan.scored_pieces(0), whole.logs.tolist(), strict=True) if inside(piece)]
        for inside in (
            lambda piece: any(
                span.segment == piece.segment and span.start <= piece.start < span.end for span in (verb, capital)
            ),
            lambda piece: piece.segment == 0 and piece.start == keys,
        )
    ]
    both, one = scores(subject, made)
    assert both.logs == pytest.approx(wanted[0], rel=1e-5, abs=1e-5)
    assert one.logs == pytest.approx(wanted[1], rel=1e-5, abs=1e-5)
    assert [piece.start for piece in made.scored_pieces(1)] == [keys]
    assert 0 < len(both.logs) < len(whole.logs)


@on_three
@pytest.mark.parametrize("scoring", Scoring)
def test_parts_of_a_text_add_up(subject: Subject, scoring: Scoring) -> None:
    (whole,) = scores(subject, made := plan(subject, [given(LONG)], scoring))
    words = len(made.words[0])
    cuts = [*range(0, words, 7), words + 5]
    parts = scores(subject, plan(subject, [given(LONG, skip=cut, most=7) for cut in cuts], scoring))
    assert np.concatenate([part.logs for part in parts]) == pytest.approx(whole.logs, rel=1e-5, abs=1e-5)
    assert sum(part.log_likelihood for part in parts) == pytest.approx(whole.log_likelihood, abs=1e-3)
    assert (parts[-1].log_likelihood, len(parts[-1].logs)) == (0.0, 0)
    nothing = plan(subject, [given(LONG, skip=words)], scoring)
    assert (len(nothing.masked), nothing.answer([])[0].log_likelihood) == (0, 0.0)


@on_three
def test_special_tokens_and_masks_are_never_scored(subject: Subject) -> None:
    special = subject.tokenizer.piece(subject.tokenizer.encode("a").sequence.ids[-1])
    made = plan(subject, [given(f"The [MASK] sat {special} on the mat.")])
    texts = [piece.text for piece in made.scored_pieces(0)]
    assert special not in texts
    assert subject.tokenizer.mask_token not in texts
    assert sum(token == subject.tokenizer.mask_id for token in made.masked.sequence(0).ids) >= 2


def refusal(subject: Subject, *inputs: ScoredInput, truncate: bool = False, most: int = 10**6) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        plan(subject, inputs, truncate=truncate, most=most)
    return caught.value.field, caught.value.reason


@on_three
def test_bad_inputs(subject: Subject) -> None:
    good, long = given("The cat sat."), "cat " * 100
    assert refusal(subject, good, given(long)) == ("inputs[1]", "TEXT_TOO_LONG")
    assert refusal(subject, good, given("[MASK]")) == ("inputs[1].text", "EMPTY_TEXT")
    assert refusal(subject, good, good, given("The dog was late.", skip=0), most=40) == ("inputs", "TOO_MANY_TOKENS")
    end = len(long) - 1
    cut = given(long, None, Span(0, 3, 0), Span(end - 3, end, 0))
    assert refusal(subject, good, cut, truncate=True) == ("inputs[1].spans[1]", "SPAN_TRUNCATED")
    assert refusal(subject, good, given("The [MASK] sat.", None, Span(4, 10, 0))) == ("inputs[1].spans[0]", "NO_PIECE")
    assert plan(subject, [given(long)], truncate=True).texts[0].truncated > 0


@on_three
def test_scores_that_are_not_finite_are_refused(subject: Subject) -> None:
    made = plan(subject, [given("The cat sat.")])
    seen = run_rows(subject.encoder, rows_of(made))  # type: ignore[arg-type]
    seen[0].logs[:] = torch.inf
    with pytest.raises(FailedPrecondition) as caught:
        made.answer(seen)
    assert caught.value.reason == "SCORES_NOT_FINITE"
