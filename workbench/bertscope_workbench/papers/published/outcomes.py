"""Asks items: words at masks by `fill_mask`, pairs of sentences by their pseudo-log-likelihoods, and facts by
`query_facts`."""

import math
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import tee
from typing import Any

from bertscope import (
    ComparedSet,
    Fact,
    FactRelation,
    FactResult,
    FilledText,
    InvalidArgument,
    Model,
    ScoredInput,
    Scoring,
    TextSet,
)
from bertscope.questions.facts.answers import ROW_COLUMNS
from bertscope.questions.facts.metrics import relation_scores
from bertscope.rpc.splitting import OnRejected
from bertscope.values.display import record

from bertscope_workbench.papers.published.item_kinds import Association, Blank, Choice, Known, Pair, words_by_text
from bertscope_workbench.papers.published.kept_rows import REJECTED, KeptAnswer, KeptRows, OnDone, check_weights
from bertscope_workbench.readers.answer_rows import fact_result
from bertscope_workbench.readers.items.formats import Row
from bertscope_workbench.readers.items.sources import Item

WORD = re.compile(r"text_candidates\[\d+\]\.words\[(\d+)\]")
WORDS_OF_TEXT = re.compile(r"text_candidates\[\d+\]\.words")
TEXT, SET = re.compile(r"texts\[\d+\]"), re.compile(r"^sets\[\d+\]\S*")
SEVERAL = "a word is not a single entry of the vocabulary"
UNWRITABLE = "the vocabulary can't write it"
EXTRAS = ("consistency", "same_if_negated", "misprimed", "primed_p@1", "unprimed_p@1")
"""Metrics of facts beside ranks; see `bertscope.questions.facts.metrics`."""
PREFERENCES = ("ss", "lms")
"""Metrics of associations."""
SKIPPED = {
    "several_pieces": "no object is a single entry of the vocabulary",
    "not_among_candidates": "no object is among the candidates",
    "not_writable": "the vocabulary can't write the object",
    "too_long": "it has more tokens than the model reads",
}
FACT = re.compile(r"^facts\[\d+\]\S*")

TextAndWords = tuple[str, list[str]]


@dataclass(frozen=True)
class Score:
    """A word at a mask."""

    log_probability: float
    """Natural logarithm of its probability among the whole vocabulary."""
    rank: int
    """Its rank among the whole vocabulary, from 1."""


@record
class Outcome:
    """The answer to one item."""

    skipped: str = ""
    """The reason why it was not asked; empty if it was."""
    right: bool = False
    """True for a choice or a pair whose right one is strictly likelier."""
    tied: bool = False
    """True for a choice or a pair in which another one is as likely as the right one, and none likelier."""
    rank: int = 0
    """The best rank of the answers of a blank or a fact; 0 of other items."""
    extras: Mapping[str, float] = field(default_factory=dict)
    """Other metrics of a fact, and those of an association, 0 to 1."""


@record(frozen=False)
class WordScores:
    """The scores of words at the masks of texts, and why others have none."""

    found: dict[tuple[str, str], Score] = field(default_factory=dict)
    """By text and word."""
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    """By text and word: the reason why it is not scored."""


def ask_words(kept: KeptRows, name: str, model: Model, items: Sequence[Choice | Blank], on_done: OnDone) -> list[Outcome]:
    """Returns the outcome of each choice and blank, in order. Words that are not single entries are not scored."""

    def fill(asked: Iterator[TextAndWords], on_rejected: OnRejected | None) -> Generator[FilledText, None, None]:
        texts, words = tee(asked)
        return kept.client.fill_mask_stream(
            (text for text, _ in texts),
            candidates_per_text=(own for _, own in words),
            model=model,
            on_rejected=on_rejected,
            timeout=kept.timeout,
        )

    def without(asked: TextAndWords, error: InvalidArgument) -> dict[str, Any]:
        """Asks for the other words of a text, if the vocabulary can't write one."""
        text, words = asked
        left = list(words)
        while left and (place := _unwritable(error)) is not None:
            del left[place]
            try:
                for answer in fill(iter([(text, left)] if left else []), None):
                    check_weights(answer.provenance, model)
                    return _word_columns(asked, answer)
            except InvalidArgument as another:
                error = another
        if not left:
            return _word_columns(asked, None)
        why = TEXT.sub("the text", WORDS_OF_TEXT.sub("its words", error.message))
        return {REJECTED: why, "log_probabilities": None, "ranks": None, "unwritable": None}

    def fill_mask(asked: Iterator[TextAndWords]) -> Generator[KeptAnswer, None, None]:
        return kept.answers(model, asked, fill, _word_columns, without)

    wanted = [Item(each, {"text": each[0], "words": each[1]}) for each in words_by_text(items).items()]
    scores = WordScores()
    for row in kept.rows(name, model, wanted, fill_mask, {}, on_done):
        note(scores, row)
    return [outcome(item, scores) for item in items]


def ask_pairs(
    kept: KeptRows, name: str, model: Model, items: Sequence[Pair], scoring: Scoring, on_done: OnDone
) -> list[Outcome]:
    """Returns the outcome of each pair, in order. A pair that the server rejects is not scored."""
    sets = []
    for item in items:
        parts = {"parts": item.parts} if any(item.parts) else {}
        texts = (ScoredInput(text, own) for text, own in zip((item.good, item.bad), item.parts, strict=True))
        sets.append(Item(TextSet([*texts]), {"good": item.good, "bad": item.bad, **parts}))
    rows = _compared(kept, name, model, sets, scoring, on_done)
    return [Outcome(row[REJECTED] or "", row["outcome"] == "right", row["outcome"] == "tie") for row in rows]


def ask_associations(
    kept: KeptRows, name: str, model: Model, items: Sequence[Association], scoring: Scoring, on_done: OnDone
) -> list[Outcome]:
    """Returns the outcome of each association, in order: by the mean log-probability of the scored pieces of each text, whether
    the stereotype is likelier than the contrary ("ss"), and how many of both are likelier than what means nothing ("lms")."""
    sets = []
    for item in items:
        texts = [ScoredInput(text, own) for text, own in zip(item.texts, item.parts, strict=True)]
        sets.append(Item(TextSet(texts), {"texts": item.texts, "parts": item.parts}))
    found = []
    for row in _compared(kept, name, model, sets, scoring, on_done):
        if row[REJECTED]:
            found.append(Outcome(row[REJECTED]))
            continue
        pieces = zip(row["log_likelihoods"], row["scored_pieces"], strict=True)
        stereotype, contrary, unrelated = (total / max(number, 1) for total, number in pieces)
        meaningful = (stereotype > unrelated) + (contrary > unrelated)
        extras = {"ss": float(stereotype > contrary), "lms": meaningful / 2}
        found.append(Outcome(tied=stereotype == contrary, extras=extras))
    return found


def _compared(
    kept: KeptRows, name: str, model: Model, sets: Sequence[Item[TextSet]], scoring: Scoring, on_done: OnDone
) -> list[Row]:
    """Returns the rows of sets of texts, in order."""

    def compare(sets: Iterator[TextSet], on_rejected: OnRejected) -> Generator[ComparedSet, None, None]:
        return kept.client.compare_texts_stream(
            sets, model=model, scoring=scoring, on_rejected=on_rejected, timeout=kept.timeout
        )

    def columns(_: TextSet, answer: ComparedSet) -> dict[str, Any]:
        return {
            REJECTED: None,
            "outcome": answer.outcome,
            "log_likelihoods": answer.log_likelihoods,
            "scored_pieces": answer.scored_pieces,
        }

    def without(_: TextSet, error: InvalidArgument) -> dict[str, Any]:
        why = SET.sub("the pair", error.message)
        return {REJECTED: why, "outcome": None, "log_likelihoods": None, "scored_pieces": None}

    def compare_texts(sets: Iterator[TextSet], *, scoring: Scoring) -> Generator[KeptAnswer, None, None]:
        return kept.answers(model, sets, compare, columns, without)

    return kept.rows(name, model, sets, compare_texts, {"scoring": scoring}, on_done)


def ask_facts(
    kept: KeptRows, name: str, model: Model, items: Sequence[Known], on_done: OnDone, vocabulary: Sequence[str] = ()
) -> list[Outcome]:
    """Returns the outcome of each fact, in order: the best rank of its objects in the first template, as in LAMA."""
    relations = {item.relation.name: item.relation for item in items}
    found = fact_results(kept, name, model, [item.fact for item in items], relations, on_done, vocabulary)
    return [
        Outcome(result) if isinstance(result, str) else _fact_outcome(item.relation, result)
        for item, result in zip(items, found, strict=True)
    ]


def fact_results(
    kept: KeptRows,
    name: str,
    model: Model,
    facts: Sequence[Fact],
    relations: Mapping[str, FactRelation],
    on_done: OnDone,
    vocabulary: Sequence[str] = (),
) -> list[FactResult | str]:
    """Returns the answers about each fact, in order; the reason for one that the server did not take."""

    def query(asked: Iterator[Fact], on_rejected: OnRejected) -> Generator[FactResult, None, None]:
        return kept.client.query_facts_stream(
            asked,
            relations.values(),
            model=model,
            vocabulary=vocabulary,
            on_rejected=on_rejected,
            timeout=kept.timeout,
        )

    def columns(_: Fact, answer: FactResult) -> dict[str, Any]:
        return {REJECTED: None, **answer.to_row()}

    def without(_: Fact, error: InvalidArgument) -> dict[str, Any]:
        return {REJECTED: FACT.sub("the fact", error.message), **dict.fromkeys(ROW_COLUMNS)}

    def query_facts(
        asked: Iterator[Fact], *, relations: Iterable[FactRelation], vocabulary: Sequence[str]
    ) -> Generator[KeptAnswer, None, None]:
        return kept.answers(model, asked, query, columns, without)

    options = {"relations": list(relations.values()), "vocabulary": vocabulary}
    rows = kept.rows(name, model, [Item(fact, fact.to_row()) for fact in facts], query_facts, options, on_done)
    return [row[REJECTED] or fact_result(row, relations) for row in rows]


def note(scores: WordScores, row: Mapping[str, Any]) -> None:
    """Adds what a row says of the words of its text."""
    text, words = row["text"], row["words"]
    if row[REJECTED]:
        scores.reasons |= dict.fromkeys([(text, word) for word in words], row[REJECTED])
        return
    for word, log_probability, rank in zip(words, row["log_probabilities"], row["ranks"], strict=True):
        if rank is None:
            scores.reasons[text, word] = UNWRITABLE if word in row["unwritable"] else SEVERAL
        else:
            scores.found[text, word] = Score(log_probability, rank)


def outcome(item: Choice | Blank, scores: WordScores) -> Outcome:
    """Returns the outcome of a choice or of a blank."""
    if isinstance(item, Choice):
        for option in item.options:
            if option not in scores.found:
                return Outcome(scores.reasons[option])
        right, *wrong = (scores.found[option].log_probability for option in item.options)
        return Outcome(right=right > max(wrong), tied=right == max(wrong))
    ranks = [scores.found[item.text, answer].rank for answer in item.answers if (item.text, answer) in scores.found]
    return Outcome(rank=min(ranks)) if ranks else Outcome(scores.reasons[item.text, item.answers[0]])


def _fact_outcome(relation: FactRelation, result: FactResult) -> Outcome:
    if result.skipped:
        return Outcome(SKIPPED.get(result.skipped, result.skipped))
    scores = relation_scores(relation, [result], "first", 0)
    extras = {name: getattr(scores, name.replace("@", "_at_")) for name in EXTRAS}
    rank = result.answer(relation.affirmed[0]).rank
    return Outcome(rank=rank or 0, extras={name: value for name, value in extras.items() if not math.isnan(value)})


def _word_columns(asked: TextAndWords, answer: FilledText | None) -> dict[str, Any]:
    """Returns the scores of a text's words, in their order; None for words that the answer does not have."""
    predictions = {} if answer is None else {each.token: each for each in answer.masks[0].predictions}
    found = [predictions.get(word) for word in asked[1]]
    return {
        REJECTED: None,
        "log_probabilities": [each and each.log_probability for each in found],
        "ranks": [each and each.rank for each in found],
        "unwritable": [word for word, each in zip(asked[1], found, strict=True) if each is None],
    }


def _unwritable(error: InvalidArgument) -> int | None:
    """Returns the place of the word that the vocabulary can't write; None for another error."""
    found = next(filter(None, (WORD.fullmatch(each.field) for each in error.field_violations)), None)
    return None if found is None else int(found[1])
