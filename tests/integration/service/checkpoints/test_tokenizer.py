"""Texts as every architecture reads them: spans, masks, pairs, truncation and words."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from bertscope_service.checkpoints.mask_names import MASK
from bertscope_service.checkpoints.tokenized_text import Piece
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.checkpoints.word_bounds import is_invisible, is_mark
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from tests.support.tiny import SENTENCES

MAX_TOKENS = 64
BYTES = {character: byte for byte, character in bytes_to_unicode().items()}
BYTE_LEVEL, SENTENCE_PIECE = {"roberta", "modernbert"}, {"xlm-roberta", "albert"}

PARTS = st.one_of(
    st.sampled_from(SENTENCES),
    st.sampled_from(
        ["cat", "the", "Paris", "unplayable", " ", "  ", "\t", "\n", "\u00a0", ".", "(", "”", "'s", "-", "[", "##s"]
    ),
    st.sampled_from(
        ["é", "e\u0301", "A\u030a", "ﬁ", "İ", "ß", "東京", "한", "😀", "👩\u200d👧", "🇫🇷", "\u200b", "ة", "\u0301"]
    ),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6),
)
TEXTS = st.lists(PARTS, max_size=8).map("".join)
on_three_tokenizers = pytest.mark.parametrize("subject", ["bert", "roberta", "albert"], indirect=True)
"""WordPiece, bytes and SentencePiece: one of each kind."""

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


class Subject:
    """A tokenizer by us and by transformers."""

    def __init__(self, architecture: str, folder: Path) -> None:
        self.architecture = architecture
        self.folder = folder
        self.ours = TextTokenizer.load(folder, MAX_TOKENS)
        self.theirs: Any = AutoTokenizer.from_pretrained(folder)

    def pieces(self, text: str, pair: str | None = None) -> list[Piece]:
        return self.ours.encode(text, pair).pieces(self.ours)

    def matches(self, piece: Piece, covered: str) -> bool:
        """Whether the characters that a token says it covers are what its piece stands for."""
        if piece.id == self.ours.unknown_id or covered == piece.text:  # as a special token that is written out
            return True
        if self.architecture in BYTE_LEVEL:
            written = bytes(BYTES[character] for character in piece.text).decode(errors="ignore")
            return written.strip() in covered
        normalizer = self.ours.backend.normalizer
        plain = normalizer.normalize_str(covered).strip() if normalizer is not None else covered
        written = piece.text.removeprefix("▁").removeprefix("##")
        # A single character may be written as several, each of them a piece: the ligature ﬁ, or a blank before it.
        return plain == written or (len(covered) == 1 and written in plain)


@pytest.fixture(scope="module", params=["bert", "roberta", "albert", "xlm-roberta", "modernbert"])
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))


@pytest.fixture(scope="module", params=["", "<m>", "<<BLANK>>"])
def renamed(request: pytest.FixtureRequest, subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """The tokenizer as it is, and with a mask token that is shorter or longer than "[MASK]"."""
    if not request.param:
        return subject
    folder = Path(copytree(subject.folder, tmp_path_factory.mktemp("renamed") / "copy"))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        path = folder / name
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(str(subject.ours.mask_token), request.param), encoding="utf-8")
    tokenizer = Subject(subject.architecture, folder)
    assert tokenizer.ours.mask_token == request.param
    return tokenizer


def check_spans(subject: Subject, text: str) -> None:
    last = 0
    for piece in subject.pieces(text):
        assert 0 <= piece.start <= piece.end <= len(text)
        covered = text[piece.start : piece.end]
        assert covered == covered.strip()
        if piece.special:
            assert (piece.start, piece.end, piece.word) == (0, 0, None)
            continue
        assert piece.start >= last
        last = piece.start
        if piece.id == subject.ours.mask_id:
            assert covered in (MASK, subject.ours.mask_token)
        else:
            assert subject.matches(piece, covered), (piece, covered)


def masks(subject: Subject, text: str) -> list[tuple[int, int]]:
    return [(piece.start, piece.end) for piece in subject.pieces(text) if piece.id == subject.ours.mask_id]


@pytest.mark.slow
@EXAMPLES
@given(text=TEXTS)
@example(text="The café e\u0301 is 😀 in Zürich, 👩\u200d👧 unplayable 東京.")
@example(text="The café é is 😀 in Zürich, unplayable 東京.")
@example(text=SENTENCES[5])
def test_spans_cover_what_the_piece_says_and_ids_are_transformers_own(subject: Subject, text: str) -> None:
    check_spans(subject, text)
    expected, pieces = subject.theirs(text), subject.pieces(text)
    assert [piece.id for piece in pieces] == expected["input_ids"]
    # Each word lies in one of transformers' own, which sentence pieces part at blanks alone; byte-level ones part marks, too.
    both = {piece.word: theirs for piece, theirs in zip(pieces, expected.word_ids(), strict=True)}
    if not any(is_mark(character) or is_invisible(character) for character in text):
        assert [both[piece.word] for piece in pieces] == expected.word_ids()
    if subject.architecture == "bert" and text.isascii():
        assert [piece.word for piece in pieces] == expected.word_ids()


@pytest.mark.slow
@on_three_tokenizers
@EXAMPLES
@given(parts=st.lists(TEXTS, min_size=2, max_size=5))
@example(parts=["", ""])
@example(parts=["a ", " ", "", "  b"])
@example(parts=["😀e\u0301 ", ".", "\n"])
@example(parts=["", "[SEP]"])
def test_masks_are_found_where_they_are_written(renamed: Subject, parts: list[str]) -> None:
    """Whatever the model's own mask is, and whether it is shorter or longer; no span is moved."""
    text, own = MASK.join(parts), str(renamed.ours.mask_token)
    expected = {match.span() for mask in (MASK, own) for match in re.finditer(re.escape(mask), text)}
    assert masks(renamed, text) == sorted(expected)
    check_spans(renamed, text)


@on_three_tokenizers
def test_a_models_own_mask_token_is_one_too(renamed: Subject) -> None:
    own = str(renamed.ours.mask_token)
    text = f"The {own} sat on [MASK] in {own}."
    assert [text[start:end] for start, end in masks(renamed, text)] == [own, MASK, own]


@on_three_tokenizers
@pytest.mark.parametrize("pair", [("[MASK]", "a"), (SENTENCES[4], SENTENCES[5])])
def test_pairs(subject: Subject, pair: tuple[str, str]) -> None:
    tokenized = subject.ours.encode(*pair)
    pieces = tokenized.pieces(subject.ours)
    own = [part.replace(MASK, str(subject.ours.mask_token)) for part in pair]
    expected = subject.theirs(*own, return_token_type_ids=True)
    assert list(tokenized.sequence.ids) == expected["input_ids"]
    # transformers names DistilBERT's segments, which it does not read, all 0.
    segmented = subject.architecture in {"bert", "albert", "electra", "mobilebert"}
    if segmented:
        assert list(tokenized.sequence.segments) == expected["token_type_ids"]
    assert [piece.segment for piece in pieces] == sorted(piece.segment for piece in pieces)
    assert {piece.segment for piece in pieces} == {0, 1}
    assert [piece.special for piece in pieces] == [which is None for which in expected.sequence_ids()]
    for piece in pieces:
        covered = pair[piece.segment][piece.start : piece.end]
        assert piece.special or piece.id == subject.ours.mask_id or subject.matches(piece, covered)


@pytest.mark.slow
@EXAMPLES
@given(texts=st.lists(TEXTS | st.text(alphabet=st.characters(max_codepoint=127)), min_size=1, max_size=4))
def test_texts_of_ascii_are_tokenized_like_others(subject: Subject, texts: list[str]) -> None:
    """A faster tokenizer reads them."""
    backend = subject.ours.backend
    for found in subject.ours.encode_all([(text,) for text in texts]):
        (text,) = found.texts
        expected = backend.encode(text.replace(MASK, str(subject.ours.mask_token)))
        assert (found.encoding.tokens, found.encoding.ids, found.encoding.type_ids) == (
            expected.tokens,
            expected.ids,
            expected.type_ids,
        )
        assert (found.encoding.offsets, found.encoding.word_ids) == (expected.offsets, expected.word_ids)


def test_a_normalized_token_with_an_accent_is_found_in_ascii(checkpoint: Callable[[str], Path]) -> None:
    tokenizer = TextTokenizer.load(checkpoint("bert"), MAX_TOKENS)
    assert tokenizer._of_ascii is not None
    tokenizer.backend.add_tokens([AddedToken("qu\u00e9", normalized=True)])
    other = TextTokenizer(tokenizer.backend, tokenizer.mask_token, tokenizer.mask_id, tokenizer.unknown_id, MAX_TOKENS)
    assert other.encode("a que b").sequence.ids[2] == tokenizer.backend.token_to_id("qu\u00e9")


LENGTHS = st.integers(min_value=1, max_value=90)


@on_three_tokenizers
@pytest.mark.parametrize("truncate", [False, True])
def test_texts_together_are_tokenized_as_each_alone(subject: Subject, truncate: bool) -> None:
    inputs = [*((text,) for text in SENTENCES), ("one", "and another"), ("cat " * 100,), ("cat " * 100, "short"), ("a [MASK]",)]
    together = subject.ours.encode_all(inputs, truncate=truncate, reserve=3)
    for texts, found in zip(inputs, together, strict=True):
        alone = subject.ours.encode(*texts, truncate=truncate, reserve=3)
        assert found.sequence == alone.sequence
        assert (found.truncated, found.pieces(subject.ours)) == (alone.truncated, alone.pieces(subject.ours))


@pytest.mark.slow
@on_three_tokenizers
@pytest.mark.parametrize("word", ["unplayable", "café", "3.50"])
@pytest.mark.parametrize("text", ["[MASK] sat", "It is “[MASK]” now", "a-[MASK]-b"])
def test_pieces_in_context_are_those_of_the_whole_text(subject: Subject, text: str, word: str) -> None:
    """The pieces of a word are what the tokenizer reads where the word stands in place of the mask."""
    tokenized = subject.ours.encode(text)
    ids, mask = list(tokenized.sequence.ids), subject.ours.mask_id
    assert mask is not None
    place = ids.index(mask)
    before = text[: tokenized.span(place)[0]][-1:]
    pieces = subject.ours.pieces_in_context(word, before)
    filled = list(subject.ours.encode(text.replace(MASK, word)).sequence.ids)
    assert pieces
    assert filled[: place + len(pieces)] == [*ids[:place], *pieces]
    # The text goes on after the word.
    written = subject.ours.backend.decode(list(pieces)).replace(" ", "")
    assert written.casefold() == (word if subject.architecture in BYTE_LEVEL | {"xlm-roberta"} else word.replace("é", "e"))


@pytest.mark.parametrize(("word", "before"), [("\x00", ""), ("\u200b", " ")])
def test_a_word_without_pieces(checkpoint: Callable[[str], Path], word: str, before: str) -> None:
    tokenizer = TextTokenizer.load(checkpoint("bert"), MAX_TOKENS)
    assert tokenizer.pieces_in_context(word, before) == ()
    assert tokenizer.pieces_in_context("cat" + word, before) == tokenizer.pieces_in_context("cat", before) != ()


@pytest.mark.slow
@on_three_tokenizers
@EXAMPLES
@given(first=LENGTHS, second=st.just(0) | LENGTHS)
@example(first=90, second=0)
@example(first=60, second=1)
@example(first=1, second=60)
@example(first=90, second=30)
@example(first=90, second=90)
def test_a_truncated_text_or_pair_is_transformers_own(subject: Subject, first: int, second: int) -> None:
    """One token at a time leaves the longer text first, so a text of at most half the room stays whole."""
    texts = ("cat " * first, "the " * second)[: 1 + (second > 0)]
    tokenized, whole = subject.ours.encode(*texts, truncate=True), subject.ours.encode(*texts)
    assert len(tokenized) == min(len(whole), MAX_TOKENS)
    assert tokenized.truncated == len(whole) - len(tokenized)
    lengths = [sum(which == part for which in tokenized.encoding.sequence_ids) for part in range(len(texts))]
    full = [sum(which == part for which in whole.encoding.sequence_ids) for part in range(len(texts))]
    for length, before, other in zip(lengths, full, lengths[::-1], strict=True):
        assert length == before or abs(length - other) <= 1 or length > other
    expected = subject.theirs(*texts, truncation="longest_first", max_length=MAX_TOKENS)["input_ids"]
    assert list(tokenized.sequence.ids) == expected


class WithoutBatches:
    """A tokenizer that refuses batches."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        assert name != "encode_batch", "a batch waits for the library's threads, which tokenize another call's large one"
        return getattr(self._tokenizer, name)


def test_short_texts_make_no_batch(subject: Subject) -> None:
    """They are planned on the event loop, which must not stand behind other calls' batches: there is one pool of threads."""
    texts = [(text,) for text in SENTENCES[:8]]
    alone = replace(subject.ours, backend=WithoutBatches(subject.ours.backend))
    vars(alone)["_of_ascii"] = None
    found = alone.encode_all(texts)
    assert [each.sequence.ids for each in found] == [each.sequence.ids for each in subject.ours.encode_all(texts)]
    assert alone.all_pieces_in_context(["cat", "dog"], " ") == subject.ours.all_pieces_in_context(["cat", "dog"], " ")
