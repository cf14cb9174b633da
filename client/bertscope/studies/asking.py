"""Asks the items of a study: words at masks by `fill_mask`, pairs of sentences by their pseudo-log-likelihoods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bertscope._display import short_repr
from bertscope.choices import Scoring
from bertscope.client import Client
from bertscope.cloze import FilledText
from bertscope.errors import BertscopeError, InvalidArgument
from bertscope.models import Model
from bertscope.scores.sets import TextSet
from bertscope.studies.items import Blank, Choice, Pair, words_by_text
from bertscope.studies.tables import MASK

TEXTS, WORDS = 64, 200
"""The most texts, and different words, of one call."""
REJECTED = re.compile(r"(texts|candidates)\[(\d+)\]")
SEVERAL = "not a single entry of the vocabulary"
UNWRITABLE = "the vocabulary can't write it"

OnDone = Callable[[int, int], object]
"""Hears how many texts are answered, of how many."""


@dataclass(frozen=True)
class Score:
    """A word at a mask."""

    log_probability: float
    """Natural logarithm of its probability among the whole vocabulary."""
    rank: int
    """Its rank among the whole vocabulary, from 1."""


@dataclass(frozen=True)
class Outcome:
    """The answer to one item."""

    __repr__ = short_repr

    skipped: str = ""
    """The reason why it was not asked; empty if it was."""
    right: bool = False
    """True for a choice or a pair whose right one is strictly likelier."""
    tied: bool = False
    """True for a choice or a pair in which another one is as likely as the right one, and none likelier."""
    rank: int = 0
    """The best rank of the answers of a blank or a fact; 0 of other items."""
    extras: Mapping[str, float] = field(default_factory=dict)
    """Other metrics of a fact, 0 to 1."""


@dataclass
class WordScores:
    """The scores of words at masks, and why others have none."""

    __repr__ = short_repr

    found: dict[tuple[str, str], Score] = field(default_factory=dict)
    """By text and word."""
    words: dict[tuple[str, str], str] = field(default_factory=dict)
    """By the character before a mask and a word: the reason why it is not scored."""
    texts: dict[str, str] = field(default_factory=dict)
    """By text: the reason why it is not asked."""

    def reason(self, text: str, word: str) -> str:
        """Returns the reason why a word has no score in a text."""
        if text in self.texts:
            return self.texts[text]
        why = self.words.get((before(text), word), SEVERAL)
        return f"a word is {why}" if why == SEVERAL else why


def ask_words(
    client: Client, model: Model, items: Sequence[Choice | Blank], timeout: float | None, on_done: OnDone
) -> list[Outcome]:
    """Returns the outcome of each choice and blank, in order. Words that are not single entries are not scored."""
    wanted = words_by_text(items)
    scores = WordScores()
    _find_words(client, model, wanted, scores, timeout)
    texts = sorted(wanted, key=lambda text: (sorted(wanted[text]), text))  # Texts with the same words go together.
    done = 0
    for part in _parts(texts, wanted, scores):
        words = sorted({word for text in part for word in wanted[text] if (before(text), word) not in scores.words})
        for filled in _filled(client, model, part, words, scores, timeout):
            asked = set(wanted[filled.text])
            for prediction in filled.masks[0].predictions:
                if prediction.token in asked and prediction.rank is not None:
                    scores.found[filled.text, prediction.token] = Score(prediction.log_probability, prediction.rank)
        done += len(part)
        on_done(done, len(texts))
    return [outcome(item, scores) for item in items]


def ask_pairs(
    client: Client, model: Model, items: Sequence[Pair], scoring: Scoring, timeout: float | None, on_done: OnDone
) -> list[Outcome]:
    """Returns the outcome of each pair, in order. A pair that the server rejects is not scored."""
    rejected: dict[int, str] = {}

    def note(index: int, error: BertscopeError) -> None:
        rejected[index] = re.sub(r"^sets\[\d+\]\S*", "the pair", error.message)

    sets = [TextSet((item.good, item.bad)) for item in items]
    found: list[Outcome] = []
    for compared in client.compare_texts_stream(sets, model=model, scoring=scoring, on_rejected=note, timeout=timeout):
        found.append(Outcome(right=compared.outcome == "right", tied=compared.outcome == "tie"))
        on_done(len(found), len(items))
    scored = iter(found)
    return [Outcome(rejected[index]) if index in rejected else next(scored) for index in range(len(items))]


def outcome(item: Choice | Blank, scores: WordScores) -> Outcome:
    """Returns the outcome of a choice or of a blank."""
    if isinstance(item, Choice):
        for option in item.options:
            if option not in scores.found:
                return Outcome(scores.reason(*option))
        right, *wrong = (scores.found[option].log_probability for option in item.options)
        return Outcome(right=right > max(wrong), tied=right == max(wrong))
    ranks = [scores.found[item.text, answer].rank for answer in item.answers if (item.text, answer) in scores.found]
    return Outcome(rank=min(ranks)) if ranks else Outcome(scores.reason(item.text, item.answers[0]))


def before(text: str) -> str:
    """Returns the character before a text's mask; how a word is written there may depend on it."""
    return text[: text.index(MASK)][-1:]


def _find_words(client: Client, model: Model, wanted: dict[str, list[str]], scores: WordScores, timeout: float | None) -> None:
    """Notes words that are not single entries: each would cost every text of its call another row."""
    contexts: dict[str, dict[str, None]] = {}
    for text, words in wanted.items():
        contexts.setdefault(before(text), {}).update(dict.fromkeys(words))
    for context, named in contexts.items():
        words = list(named)
        text = f"{'a' if context.isspace() else ''}{context}{MASK}."
        for start in range(0, len(words), WORDS):
            for filled in _filled(client, model, [text], words[start : start + WORDS], scores, timeout):
                for prediction in filled.masks[0].predictions:
                    if prediction.rank is None:
                        scores.words[context, prediction.token] = SEVERAL


def _parts(texts: Sequence[str], wanted: dict[str, list[str]], scores: WordScores) -> Iterator[list[str]]:
    """Yields texts for one call each; those without a word that can be scored are left out."""
    part: list[str] = []
    words: set[str] = set()
    for text in texts:
        more = {word for word in wanted[text] if (before(text), word) not in scores.words}
        if not more:
            continue
        if part and (len(part) == TEXTS or len(words | more) > WORDS):
            yield part
            part, words = [], set()
        part.append(text)
        words |= more
    if part:
        yield part


def _filled(
    client: Client, model: Model, texts: Sequence[str], words: Sequence[str], scores: WordScores, timeout: float | None
) -> list[FilledText]:
    """Asks for words at the masks of texts; texts and words that the server rejects are noted and left out."""
    texts, words = list(texts), list(words)
    while texts and words:
        try:
            return list(client.fill_mask(texts, model=model, candidates=words, timeout=timeout))
        except InvalidArgument as error:
            named = next(filter(None, (REJECTED.fullmatch(each.field) for each in error.field_violations)), None)
            if named is None:
                raise
            place = int(named[2])
            if named[1] == "texts":
                text = texts.pop(place)
                scores.texts[text] = re.sub(r"texts\[\d+\]", "the text", error.message)
            else:
                word = words.pop(place)
                for text in texts:
                    scores.words[before(text), word] = UNWRITABLE
    return []
