"""Joint fillings of the masks of texts, where a mask may stand for several vocabulary entries.

Each number of entries at each mask is a sequence with as many masks, filled as analyses.decoding says. Fillings of different
lengths are ordered by the mean of the logarithms of their entries' probabilities, as a sum favours the shorter ones (Jiang et
al. 2020, section 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise, product
from typing import Any, TypeAlias

from bertscope_service.analyses.cloze import MAX_PREDICTIONS, MAX_ROW_TOKENS
from bertscope_service.analyses.decoding import Blanks, Decoder, Decoding, Filling, count_rows
from bertscope_service.analyses.next_sentence import next_sentence_probabilities, next_sentence_rows
from bertscope_service.analyses.rounds import Rounds
from bertscope_service.analyses.texts import join_pairs, masks_of, read_blanks, with_masks
from bertscope_service.checkpoints.entry_names import WrittenEntries, phrase_names, write_in_place
from bertscope_service.checkpoints.flat_texts import FlatTexts
from bertscope_service.checkpoints.mask_names import MASK
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MAX_READ = 5_000_000
"""Maximum number of entries that the last round of a query reads; they take 60 MB."""

READ_BYTES, ENTRY_BYTES = 12, 200

_Part: TypeAlias = tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class FillingQuery:
    """A FillMask request with a joint decoding. `width` is 1 unless it is a beam; `max_row_tokens` is the maximum number of
    tokens in all rows; `text_pairs`, `next_sentence` as in ClozeQuery."""

    texts: tuple[str, ...]
    decoding: Decoding
    top_k: int
    width: int
    max_pieces: int
    truncate: bool
    max_row_tokens: int = MAX_ROW_TOKENS
    text_pairs: tuple[str, ...] = ()
    next_sentence: bool = False


@dataclass(frozen=True, slots=True)
class FilledSpan:
    """The entries in place of one mask, with the logarithms of their probabilities, the steps in which they were chosen, and
    what they write there."""

    name: str
    ids: tuple[int, ...]
    logs: tuple[float, ...]
    steps: tuple[int, ...]
    written: WrittenEntries


@dataclass(frozen=True, slots=True)
class FilledMasks:
    """One filling of a text: a span for each of its masks, the sum of all logarithms, and their mean."""

    spans: tuple[FilledSpan, ...]
    log_probability: float
    mean_log_probability: float


class FillingPlan(Rounds):
    """The rounds for a query, and the fillings that they find.

    texts: the tokenized texts. masks: the positions of each text's masks. Raises InvalidArgument for a text without a mask
    (unless `next_sentence` is asked) or too long, and for a query with too many predictions or tokens.
    """

    def __init__(self, query: FillingQuery, tokenizer: TextTokenizer) -> None:
        self.query, self.tokenizer = query, tokenizer
        self.texts = self._tokenize()
        self.masks = masks_of(self.texts, tokenizer, needed=not query.next_sentence)
        self._check_lengths()
        self._lengths = [
            list(product(range(1, query.max_pieces + 1), repeat=len(masks))) if masks else [] for masks in self.masks
        ]
        blanks = list(self._blanks())
        self._check_predictions(blanks)
        self._decoder = Decoder(blanks, query.decoding, top_k=query.top_k, width=query.width)
        self._pairs_asked = next_sentence_rows(self.texts) if query.next_sentence else []
        self.rows = [*self._pairs_asked, *self._decoder.rows]

    def _tokenize(self) -> FlatTexts:
        """Returns the tokens of each text. A text that is cut leaves room for the longest filling."""
        inputs, reserve = join_pairs(self.query.texts, self.query.text_pairs), 0
        if self.query.truncate and self.query.max_pieces > 1:
            names = {MASK, self.tokenizer.mask_token or MASK}
            counts = (sum(text.count(name) for name in names for text in texts) for texts in inputs)
            reserve = (self.query.max_pieces - 1) * max(counts)
        return read_blanks(self.tokenizer, inputs, truncate=self.query.truncate, reserve=reserve)

    def _check_lengths(self) -> None:
        """Checks the longest filling of each text, and the number of rows and tokens, before any of them is made."""
        query, most = self.query, self.query.max_row_tokens
        tokens = sum(map(len, self.texts.sequences)) if query.next_sentence else 0
        for index, (text, masks) in enumerate(zip(self.texts.sequences, self.masks, strict=True)):
            if not masks:
                continue
            longest = len(text) + len(masks) * (query.max_pieces - 1)
            if longest > self.tokenizer.max_tokens:
                message = (
                    f"texts[{index}] has {len(text)} tokens and {query.max_pieces} pieces for each mask do not fit in: the "
                    f"model reads {self.tokenizer.max_tokens}; shorten the text, or lower max_pieces"
                )
                raise InvalidArgument(f"texts[{index}]", message, "TEXT_TOO_LONG")
            if query.max_pieces ** len(masks) * len(text) > most:
                tokens = most + 1
                break
            tokens += sum(
                count_rows(sum(lengths), query.decoding, query.width) * (len(text) - len(masks) + sum(lengths))
                for lengths in product(range(1, query.max_pieces + 1), repeat=len(masks))
            )
            if tokens > most:
                break
        if tokens > most:
            message = f"filling these masks jointly makes more than {most} tokens of work; send fewer texts, or ask for less"
            raise InvalidArgument("texts", message, "TOO_MANY_TOKENS", limit=most)

    def _blanks(self) -> Iterator[Blanks]:
        """Yields the sequences of each text: one for each number of entries at each mask."""
        for sequence, masks, combinations in zip(self.texts.sequences, self.masks, self._lengths, strict=True):
            for lengths in combinations:
                yield Blanks(sequence, masks) if max(lengths) == 1 else _widened(sequence, masks, lengths)

    def _check_predictions(self, blanks: Sequence[Blanks]) -> None:
        """Checks the number of entries in all fillings, and of those that are read to find them."""
        query = self.query
        self.predictions = query.top_k * sum(len(blank.positions) for blank in blanks)
        self._read = len(blanks) * query.width * max(query.width, query.top_k)
        if self.predictions > MAX_PREDICTIONS or self._read > MAX_READ:
            message = (
                f"the fillings would hold {self.predictions} entries, more than {MAX_PREDICTIONS}, or be found among "
                f"{self._read}, more than {MAX_READ}; ask for fewer, for a narrower beam, or in parts"
            )
            raise InvalidArgument("top_k", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS)

    @property
    def reply_bytes(self) -> int:
        """Approximate memory of the last round's results and of the fillings."""
        return self.predictions * ENTRY_BYTES + self._read * READ_BYTES

    def advance(self, results: Sequence[Any]) -> None:
        """See Rounds. Raises FailedPrecondition for scores that are not finite."""
        # The first round has the pairs in front.
        self._decoder.advance(results[len(self.rows) - len(self._decoder.rows) :])
        self.rows = [*self._decoder.rows]

    def next_sentence(self, first: Sequence[Any]) -> list[float]:
        """Returns the probability that the second text follows, of each pair, by the results of the first round; nothing if it
        was not asked. Raises FailedPrecondition for scores that are not finite."""
        return next_sentence_probabilities(first[: len(self._pairs_asked)])

    def answer(self) -> list[list[FilledMasks]]:
        """Returns the fillings of each text, likeliest first; after the last round."""
        found = iter(self._decoder.fillings)
        return [
            self._likeliest(text, combinations, list(islice(found, len(combinations))))
            for text, combinations in enumerate(self._lengths)
        ]

    def _likeliest(
        self, text: int, combinations: Sequence[tuple[int, ...]], found: Sequence[Sequence[Filling]]
    ) -> list[FilledMasks]:
        """Returns the likeliest fillings of a text among those of all its numbers of entries."""
        every = [(filling, lengths) for lengths, fillings in zip(combinations, found, strict=True) for filling in fillings]
        every.sort(key=lambda pair: -pair[0].mean_log_probability)
        return self._named(text, [(filling, _by_mask(filling, lengths)) for filling, lengths in every[: self.query.top_k]])

    def _named(self, text: int, chosen: Sequence[tuple[Filling, list[_Part]]]) -> list[FilledMasks]:
        """Names the entries in place of each mask, apart from those of the text's other fillings, and writes them in place."""
        names = [
            phrase_names(self.tokenizer, [ids for ids, _, _ in parts])
            for parts in zip(*(own for _, own in chosen), strict=True)
        ]
        found = []
        for number, (filling, parts) in enumerate(chosen):
            written = self._written(text, [ids for ids, _, _ in parts])
            spans = [FilledSpan(name[number], *part, place) for name, part, place in zip(names, parts, written, strict=True)]
            found.append(FilledMasks(tuple(spans), filling.log_probability, filling.mean_log_probability))
        return found

    def _written(self, text: int, phrases: Sequence[tuple[int, ...]]) -> Iterator[WrittenEntries]:
        """Yields what stands in place of each mask of a text."""
        tokenized, left, end = self.texts[text], None, (0, -1)
        for position, phrase in zip(self.masks[text], phrases, strict=True):
            segment, span = tokenized.segment(position), tokenized.span(position)
            beside = left if end == (segment, span[0]) else None
            written = write_in_place(self.tokenizer, tokenized, position, phrase, beside)
            left, end = written.text, (segment, span[1])
            yield written


def _by_mask(filling: Filling, lengths: tuple[int, ...]) -> list[_Part]:
    """Returns the ids, logarithms and steps of the entries in place of each mask."""
    ends = [0, *accumulate(lengths)]
    parts = [slice(start, end) for start, end in pairwise(ends)]
    return [(filling.ids[part], filling.logs[part], filling.steps[part]) for part in parts]


def _widened(sequence: TokenSequence, masks: Sequence[int], lengths: Sequence[int]) -> Blanks:
    """Returns the sequence with several masks in place of each."""
    for position, length in sorted(zip(masks, lengths, strict=True), reverse=True):
        sequence = with_masks(sequence, position, length)
    positions, before = list[int](), 0
    for position, length in zip(masks, lengths, strict=True):
        positions += range(position + before, position + before + length)
        before += length - 1
    return Blanks(sequence, tuple(positions))
