"""What objectives measure at masks, against plain transformers: its tokenizer, its model, one text at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.ablation import Metric
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.objectives import minimal_pairs
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery, build_objective
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsQuery, Prompt
from bertscope_service.analyses.objectives.divergence import DivergenceQuery
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.analyses.objectives.minimal_pairs import MinimalPairsQuery
from bertscope_service.analyses.observers.predictions import GoldObserver, GoldScores
from bertscope_service.analyses.texts import words_of
from bertscope_service.encoders.edits import Edits
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from numpy.typing import NDArray
from transformers import AutoTokenizer

from tests.support.reference import Subject
from tests.support.runner import run_rows
from tests.support.subjects import on_three
from tests.support.tiny import SENTENCES

TEXTS = SENTENCES[:5] + SENTENCES[6:9]
PAIRS = (
    ("The cat sat.", "The cat sitting unplayable."),
    ("The keys to the cabinet are old.", "The keys to the cabinet is old."),
    ("A unbeatable songs recorded it.", "She plays the violin."),
    ("The dog walked to the market.", "The dog walked to the market."),
)
EDITS = {(0, 1): (0.0, 0.0), (2, 3): (0.0, 1.0), (1, 0): (-1.5, 0.0)}


class Plain:
    """A checkpoint as a reader of transformers' documentation would use it."""

    def __init__(self, subject: Subject) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(subject.folder)
        self.model = subject.reference.model

    def encode(self, text: str) -> tuple[list[int], list[int | None]]:
        """Ids, and the word of each."""
        encoded = self.tokenizer(text.replace("[MASK]", self.tokenizer.mask_token))
        return list(encoded["input_ids"]), encoded.word_ids()

    @torch.inference_mode()
    def logs(self, ids: Sequence[int]) -> torch.Tensor:
        """Logarithms of probabilities, float64 [length, vocabulary]."""
        logits: torch.Tensor = self.model(input_ids=torch.tensor([list(ids)])).logits[0]
        return logits.double().log_softmax(dim=-1)

    def masked(self, ids: Sequence[int], places: Sequence[int]) -> list[int]:
        return [self.tokenizer.mask_token_id if place in places else token for place, token in enumerate(ids)]


def build(subject: Subject, query: ObjectiveQuery) -> Objective:
    return build_objective(query, subject.tokenizer, subject.encoder, "models/m")


def see(subject: Subject, objective: Objective, observers: Sequence[Any], gates: Edits | None = None) -> list[Any]:
    return run_rows(subject.encoder, list(zip(objective.sequences, observers, strict=True)), gates)


def measure(subject: Subject, objective: Objective) -> NDArray[np.float64]:
    values = objective.measure(see(subject, objective, objective.observers))
    assert (values.dtype, values.shape) == (np.float64, (len(objective.metrics), objective.items))
    return values


def refusal(subject: Subject, query: ObjectiveQuery) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        build(subject, query)
    return caught.value.field, caught.value.reason


def masks(texts: Sequence[str], seed: int = 0, share: float = 0.3, *, truncate: bool = False) -> MaskedLmQuery:
    return MaskedLmQuery(tuple(texts), seed, share, truncate)


def places_of(observer: Any) -> tuple[int, ...]:
    assert isinstance(observer, GoldObserver)
    return observer.positions


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_masked_lm_loss(subject: Subject, share: float) -> None:
    plain, objective = Plain(subject), build(subject, masks(TEXTS, share=share))
    (losses,) = measure(subject, objective)
    total, sizes = 0, set()
    for text, observer, loss in zip(TEXTS, objective.observers, losses, strict=True):
        ids, words = plain.encode(text)
        places = places_of(observer)
        chosen = {words[place] for place in places}
        # Whole words: every piece of a chosen word, and nothing of any other.
        assert sorted(places) == [place for place, word in enumerate(words) if word is not None and word in chosen]
        unknown = {words[place] for place, token in enumerate(ids) if token == plain.tokenizer.unk_token_id}
        assert not chosen & unknown
        count = len({word for word in words if word is not None} - unknown)
        assert len(chosen) == max(1, round(share * count))
        logs = plain.logs(plain.masked(ids, places))
        assert loss == pytest.approx(-np.mean([float(logs[place, ids[place]]) for place in places]), abs=1e-3)
        total, sizes = total + len(places), sizes | {sum(word == one for word in words) for one in chosen}
    assert objective.pieces == total
    assert (objective.metrics, len(objective.losses)) == ((Metric.LOSS,), len(TEXTS))
    assert share < 1 or max(sizes) > 2


@on_three
def test_masks_depend_on_the_seed_and_the_place_of_a_text_alone(subject: Subject) -> None:
    few, many = build(subject, masks(TEXTS[:3])), build(subject, masks(TEXTS))
    assert [places_of(observer) for observer in few.observers] == [places_of(observer) for observer in many.observers[:3]]
    other = build(subject, masks(TEXTS, seed=2**64 - 1))
    assert [places_of(observer) for observer in other.observers] != [places_of(observer) for observer in many.observers]
    same = build(subject, masks([TEXTS[8 - 1]] * 8))
    assert len({places_of(observer) for observer in same.observers}) > 1


@on_three
def test_written_masks_and_blanks_are_never_chosen(subject: Subject) -> None:
    text = "The [MASK]  \t sat."
    objective = build(subject, masks([text], share=1.0))
    tokenized = subject.tokenizer.encode(text)
    places = places_of(objective.observers[0])
    covered = {character for place in places for character in range(*tokenized.span(place))}
    assert "".join(text[character] for character in sorted(covered)) == "Thesat."
    blank = [word for word in words_of(tokenized) if not any(np.ptp(tokenized.span(place)) for place in word)]
    assert not {place for word in blank for place in word} & set(places)


@on_three
@pytest.mark.parametrize("text", ["[MASK]", "[MASK] [MASK]"])
def test_texts_without_a_word(subject: Subject, text: str) -> None:
    assert refusal(subject, masks(["a", text])) == ("objective.masked_lm_loss.texts[1]", "NO_WORD")


def prompts(*entries: tuple[str, Sequence[str]], skip: bool = False, truncate: bool = False) -> ClozePromptsQuery:
    return ClozePromptsQuery(tuple(Prompt(text, tuple(answers)) for text, answers in entries), skip, truncate)


PROMPTS = (
    ("The [MASK] sat.", ("cat", "dog")),
    ("[MASK] is the capital of France.", ("Paris",)),
    ("Paris is the capital of [MASK].", ("unplayable", "France", "Germany", "France")),
    ("The old man walked to the [MASK] every day.", ("the", "old", "a", "city", "market")),
)


def test_cloze(subject: Subject) -> None:
    """Gold pieces are what the whole sentence has at the mask when the answer stands there."""
    plain, objective = Plain(subject), build(subject, prompts(*PROMPTS, skip=True))
    accuracies, reciprocals, losses = measure(subject, objective)
    kept = []
    for text, answers in PROMPTS:
        ids, _ = plain.encode(text)
        place = ids.index(plain.tokenizer.mask_token_id)
        written = [plain.encode(text.replace("[MASK]", answer))[0] for answer in answers]
        golds = {other[place] for other in written if len(other) == len(ids)} - {plain.tokenizer.unk_token_id}
        if golds:
            logs = plain.logs(ids)[place]
            kept.append((min(int((logs > logs[gold]).sum()) + 1 for gold in golds), -max(float(logs[gold]) for gold in golds)))
    assert (objective.items, objective.skipped) == (len(kept), len(PROMPTS) - len(kept))
    assert len(kept) > 1
    assert objective.pieces == objective.items == len(objective.losses)
    assert reciprocals == pytest.approx([1 / rank for rank, _ in kept])
    assert accuracies.tolist() == [rank == 1 for rank, _ in kept]
    assert losses == pytest.approx([loss for _, loss in kept], abs=1e-3)


@on_three
def test_the_likeliest_answer_counts(subject: Subject) -> None:
    text, words = "The [MASK] sat on the table.", ("cat", "dog", "the", "and", "a", "old", "bird")
    single = measure(subject, build(subject, prompts(*((text, [word]) for word in words), skip=True)))
    (together,) = measure(subject, build(subject, prompts((text, words)))).T
    assert together.tolist() == pytest.approx([single[0].max(), single[1].max(), single[2].min()], abs=1e-5)


@on_three
def test_bad_prompts(subject: Subject) -> None:
    field = "objective.cloze.prompts"
    good = ("The [MASK] sat.", ["the"])
    multi = ("The [MASK] sat.", ["unplayable", "the cat"])
    assert refusal(subject, prompts(good, ("The cat sat.", ["the"]))) == (f"{field}[1].text", "NO_MASK")
    assert refusal(subject, prompts(("[MASK] [MASK]", ["the"]))) == (f"{field}[0].text", "SEVERAL_MASKS")
    assert refusal(subject, prompts(good, multi)) == (f"{field}[1].answers", "NO_SINGLE_PIECE_ANSWER")
    assert refusal(subject, prompts(multi, multi, skip=True)) == (field, "ALL_SKIPPED")
    long = "cat " * 100
    assert refusal(subject, prompts((f"[MASK] {long}", ["the"]))) == (f"{field}[0].text", "TEXT_TOO_LONG")
    assert refusal(subject, prompts((f"{long} [MASK]", ["the"]), truncate=True)) == (f"{field}[0].text", "MASK_TRUNCATED")
    objective = build(subject, prompts(good, multi, (f"The [MASK] {long}", ["the"]), skip=True, truncate=True))
    assert (objective.items, objective.skipped, objective.truncated) == (2, 1, 1)


@on_three
@pytest.mark.parametrize("scoring", Scoring)
def test_minimal_pairs(subject: Subject, scoring: Scoring) -> None:
    """Salazar's sum and Kauf and Ivanova's two, written as a loop over the tokens of one sentence."""
    plain, objective = Plain(subject), build(subject, MinimalPairsQuery(PAIRS, scoring, truncate=False))
    first = {Scoring.ORIGINAL: None, Scoring.WITHIN_WORD: 1, Scoring.WHOLE_WORD: -64}[scoring]

    def score(text: str) -> float:
        (ids, words), total = plain.encode(text), 0.0
        for place, word in enumerate(words):
            if word is not None:
                near = range(max(0, place + first), len(ids)) if first is not None else ()
                others = [other for other in near if words[other] == word]
                total += float(plain.logs(plain.masked(ids, [place, *others]))[place, ids[place]])
        return total

    expected = [(score(good), score(bad)) for good, bad in PAIRS]
    (right,) = measure(subject, objective)
    assert right.tolist() == [good > bad and index != 3 for index, (good, bad) in enumerate(expected)]
    pieces = [word for pair in PAIRS for text in pair for word in plain.encode(text)[1] if word is not None]
    assert objective.pieces == len(pieces)
    # The sentences of the last pair are the same, those of the second one differ in one word.
    assert len(objective.sequences) < objective.pieces
    assert not objective.losses


@on_three
def test_rows_of_pairs_are_a_sequence(subject: Subject) -> None:
    objective = build(subject, MinimalPairsQuery(PAIRS, Scoring.WITHIN_WORD, truncate=False))
    rows = list(objective.sequences)
    assert [list(row.ids) for row in objective.sequences[3:7]] == [list(row.ids) for row in rows[3:7]]
    assert list(objective.sequences[-1].ids) == list(rows[-1].ids)
    with pytest.raises(IndexError):
        objective.sequences[len(rows)]


@on_three
def test_sentences_that_read_the_same_tie(subject: Subject) -> None:
    objective = build(subject, MinimalPairsQuery((("The cat.", "The cat."),), Scoring.WITHIN_WORD, truncate=False))
    assert len(objective.sequences) * 2 == objective.pieces
    assert measure(subject, objective).tolist() == [[0.0]]


@on_three
def test_bad_pairs(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    field = "objective.minimal_pairs.pairs"

    def pairs(good: str, bad: str) -> MinimalPairsQuery:
        return MinimalPairsQuery((("a", "b"), (good, bad)), Scoring.WITHIN_WORD, truncate=False)

    assert refusal(subject, pairs("a", "cat " * 100)) == (f"{field}[1].bad", "TEXT_TOO_LONG")
    assert refusal(subject, pairs("[MASK]", "a")) == (f"{field}[1].good", "EMPTY_TEXT")
    monkeypatch.setattr(minimal_pairs, "MAX_ROW_TOKENS", 30)
    assert refusal(subject, pairs("The cat sat.", "The dog was late.")) == (field, "TOO_MUCH_WORK")


@on_three
def test_divergence_at_masks(subject: Subject) -> None:
    """KL(untouched || changed) from transformers' own logits, whose attention maps are edited."""
    texts = (("The [MASK] sat.", None), ("Paris is [MASK] of [MASK].", None), ("The cat sat.", "The [MASK] walked."))
    objective = build(subject, DivergenceQuery(texts, truncate=False))
    untouched = see(subject, objective, objective.observers)
    assert objective.measure(untouched).tolist() == [[0, 0, 0]]
    later = objective.later_observers(untouched)
    assert objective.measure(see(subject, objective, later)) == pytest.approx(np.zeros((1, 3)), abs=1e-5)
    (found,) = objective.measure(see(subject, objective, later, subject.gates(EDITS)))
    for sequence, divergence in zip(objective.sequences, found, strict=True):
        places = [place for place, token in enumerate(sequence.ids) if token == subject.tokenizer.mask_id]
        before = subject.reference.run([sequence]).logits[0, places].double().log_softmax(dim=-1)
        after = subject.reference.run_edited(sequence, EDITS).logits[0, places].double().log_softmax(dim=-1)
        expected = float((before.exp() * (before - after)).sum(dim=-1).mean())
        assert expected > 1e-3
        assert divergence == pytest.approx(expected, rel=1e-2, abs=1e-3)
    assert (objective.pieces, objective.metrics, list(objective.losses)) == (4, (Metric.DIVERGENCE,), [])


@on_three
def test_bad_divergences(subject: Subject) -> None:
    query = DivergenceQuery((("[MASK]", None), ("a", "b")), truncate=False)
    assert refusal(subject, query) == ("objective.divergence.inputs[1]", "NO_MASK")


@on_three
def test_texts_that_are_too_long_are_cut_if_asked(subject: Subject) -> None:
    long = "cat " * 100
    queries: tuple[Callable[..., ObjectiveQuery], ...] = (
        lambda truncate: masks(["a", long], truncate=truncate),
        lambda truncate: MinimalPairsQuery((("a", long),), Scoring.WITHIN_WORD, truncate=truncate),
        lambda truncate: DivergenceQuery((("[MASK]", None), (f"[MASK] {long}", None)), truncate=truncate),
    )
    for query in queries:
        assert refusal(subject, query(truncate=False))[1] == "TEXT_TOO_LONG"
        objective = build(subject, query(truncate=True))
        assert objective.truncated == 1
        assert max(map(len, objective.sequences)) == 64


@on_three
def test_scores_that_are_not_finite_are_refused(subject: Subject) -> None:
    ranks = np.ones((1, 1), dtype=np.int64)
    broken = GoldScores(np.full((1, 1), np.nan, dtype=np.float32), ranks)
    queries = (masks(["a"]), prompts(("The [MASK] sat.", ["the"])), MinimalPairsQuery((("a", "a"),), Scoring.ORIGINAL, False))
    for query in queries:
        objective = build(subject, query)
        with pytest.raises(FailedPrecondition) as caught:
            objective.measure([broken] * len(objective.sequences))
        assert caught.value.reason == "SCORES_NOT_FINITE"
    objective = build(subject, DivergenceQuery((("[MASK]", None),), truncate=False))
    with pytest.raises(FailedPrecondition):
        objective.measure([np.array([np.nan], dtype=np.float32)])
