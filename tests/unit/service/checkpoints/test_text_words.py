"""Words of a text for tokenizers that part it at blanks alone, and of callers that mark them: each has a piece of its own."""

import unicodedata
from collections import Counter
from collections.abc import Sequence

import pytest
from bertscope_service.analyses.candidates import EntryWords
from bertscope_service.checkpoints.ascii_tokenizer import LONG_TEXT, printable_ascii
from bertscope_service.checkpoints.entry_words import KeptWords
from bertscope_service.checkpoints.marked_words import Mark, PartedEncoding
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from tokenizers import Encoding, processors

from tests.support.made_tokenizers import byte_level, reads, sentence_pieces, word_pieces

LATIN = ("▁(", "▁“", "▁", "Paris", "▁Paris", ")", "”", "/", "London", "▁London", ".", "▁won", "'", "t", "c", "▁c", "est", "),é")
CHINESE = ("▁", "▁我", "我", "在", "巴黎", "和", "伦敦", "。", "3", "月")
THAI = ("▁", "กรุง", "เทพ", "ไ", "ป", "▁ไป", "ที", "่")


def words_of(tokenizer: TextTokenizer, text: str, pair: str | None = None) -> list[str]:
    read = tokenizer.encode(text, pair)
    spans: dict[tuple[int, int], list[int]] = {}
    for piece in read.pieces(tokenizer):
        assert piece.word is not None
        spans.setdefault((piece.segment, piece.word), []).extend((piece.start, piece.end))
    return [read.texts[segment][min(places) : max(places)] for (segment, _), places in spans.items()]


@pytest.mark.parametrize(
    ("pieces", "text", "expected"),
    [
        (LATIN, "(Paris)", ["(", "Paris", ")"]),
        (LATIN, "“Paris”", ["“", "Paris", "”"]),
        (LATIN, "Paris/London", ["Paris", "/", "London"]),
        (LATIN, "Paris London.", ["Paris", "London", "."]),
        (LATIN, "c'est", ["c", "'", "est"]),
        (CHINESE, "我在巴黎和伦敦。", ["我", "在", "巴黎", "和", "伦敦", "。"]),
        (CHINESE, "巴黎 3月", ["巴黎", "3", "月"]),
        (THAI, "ไปกรุงเทพ ไปที่", ["ไป", "กรุง", "เทพ", "ไป", "ที่"]),
    ],
)
def test_sentence_pieces_end_a_word_at_marks_and_ideographs(pieces: Sequence[str], text: str, expected: list[str]) -> None:
    assert words_of(reads(sentence_pieces(*pieces)), text) == expected


def test_marks_of_direction_join_no_words() -> None:
    assert words_of(reads(sentence_pieces("▁(", "\u200f", "Paris", ")")), "(\u200fParis)") == ["(\u200f", "Paris", ")"]


@pytest.mark.parametrize("marks", [[], [(0, 1, 2), (0, 2, 3)]])
def test_lists_of_tokens_are_made_once(marks: Sequence[Mark], monkeypatch: pytest.MonkeyPatch) -> None:
    """The library makes them anew each time: a long text would take minutes."""
    made = Counter[str]()

    class Counted:
        def __init__(self, encoding: Encoding) -> None:
            self.encoding = encoding

        def __len__(self) -> int:
            return len(self.encoding)

        def __getattr__(self, name: str) -> object:
            made[name] += 1
            return getattr(self.encoding, name)

    tokenizer = reads(sentence_pieces("▁(", "),", ")", ",", "▁", "("))
    encode = tokenizer._encode
    monkeypatch.setattr(tokenizer, "_encode", lambda *given: list(map(Counted, encode(*given))))
    [read] = tokenizer.encode_all([("(),(),(), " * 9,)], words=[marks])
    assert len(read.pieces(tokenizer)) > 40
    lists = {"ids", "tokens", "offsets", "word_ids", "type_ids", "sequence_ids"}
    assert max(made[name] for name in lists) < 8


def test_words_of_a_pair_are_numbered_in_each_text() -> None:
    tokenizer = reads(sentence_pieces(*LATIN))
    read = tokenizer.encode("(Paris)", "London.")
    assert read.words == [0, 1, 2, 0, 1]
    assert words_of(tokenizer, "(Paris)", "London.") == ["(", "Paris", ")", "London", "."]


def test_the_bytes_of_one_character_are_one_word() -> None:
    assert words_of(reads(byte_level()), "我在a b),") == ["我", "在", "a", "b", ")", ","]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("हिन्दी में लिखा।", ["हिन्दी", "में", "लिखा", "।"]),
        ("e\u0301te\u0301, Zu\u0308rich", ["e\u0301te\u0301", ",", "Zu\u0308rich"]),
        ("می\u200cخواهم soft\u00adhyphen", ["می\u200cخواهم", "soft\u00adhyphen"]),
        ("👩\u200d👩\u200d👧👍🏽 🇫🇷", ["👩\u200d👩\u200d👧", "👍🏽", "🇫🇷"]),
        ("ab\u200bcd", ["ab", "\u200b", "cd"]),
        # What ends a word does so behind a mark of direction, too.
        ("(\u200fab)", ["(\u200f", "ab", ")"]),
        ("ที่กุ", ["ที่", "กุ"]),
    ],
)
def test_marks_and_joiners_part_no_word(text: str, expected: list[str]) -> None:
    """Byte-level tokenizers split them off."""
    assert words_of(reads(byte_level()), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("un café.", ["un", "café", "."]), ("éé un", ["éé", "un"]), ("café-é", ["café", "-", "é"])]
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_stripped_accent_belongs_to_its_word(text: str, expected: list[str], form: str) -> None:
    tokenizer = reads(word_pieces("un", "cafe", "ee", "e", ".", "-", lowercase=True))
    assert words_of(tokenizer, unicodedata.normalize(form, text)) == [unicodedata.normalize(form, word) for word in expected]


def test_vowel_signs_that_are_stripped_belong_to_their_word() -> None:
    """To Unicode they don't combine; "हिं" has one behind another, which is kept."""
    assert words_of(reads(word_pieces("म", "हि", "##द", ".", lowercase=True)), "में हिंद.") == ["में", "हिंद", "."]


def test_an_accent_that_is_a_piece_is_not_counted_twice() -> None:
    tokenizer = reads(sentence_pieces("▁e", "\u0301", "n", "▁", "e"))
    read = tokenizer.encode("e\u0301n")
    assert [(piece.start, piece.end) for piece in read.pieces(tokenizer)] == [(0, 1), (1, 2), (2, 3)]


def test_entries_that_are_written_alike_are_known_once_both_were_seen() -> None:
    kept = KeptWords({0: "most", 1: "a", 2: "most"}.__getitem__)
    assert [kept[token].text for token in (0, 1)] == ["most", "a"]
    assert not kept.alike
    assert kept[2].pieces == (2,)
    assert kept.alike == {0, 2}
    assert kept[0] is kept[0]


def test_entries_that_are_written_alike_are_told_apart() -> None:
    tokenizer = reads(sentence_pieces("▁most", "most", "▁a"))
    most, inside, other = (tokenizer.entry(piece) for piece in ("▁most", "most", "▁a"))
    assert most is not None
    assert inside is not None
    assert other is not None
    words_of = EntryWords(tokenizer)
    assert [word.text for word in words_of.of([most, other])] == ["most", "a"]
    assert [word.text for word in words_of.of([most, inside])] == ["·most", "most"]


@pytest.mark.parametrize("length", [10, 2 * LONG_TEXT])
@pytest.mark.parametrize("character", ["\x00", "\x1f", " ", "~", "\x7f", "\x80", "é", "東"])
def test_printable_ascii(length: int, character: str) -> None:
    assert printable_ascii("a" * length + character) is (character in " ~")


def marks(text: str, words: Sequence[str], number: int = 0) -> list[tuple[int, int, int]]:
    found, place = [], 0
    for word in words:
        place = text.index(word, place)
        found.append((number, place, place + len(word)))
        place += len(word)
    return found


def pieces(tokenizer: TextTokenizer, text: str, words: Sequence[str], **given: object) -> list[str]:
    [read] = tokenizer.encode_all([(text,)], words=[marks(text, words)])
    return [piece.text for piece in read.pieces(tokenizer) if not piece.special]


MERGES = ((")", ","), ("a", "t"), ("i", "n"), ("Ġ", "at"), ("Ġ", "("), ("c", "a"), ("o", "t"), ("n", "ot"))


def roberta(*, add_prefix_space: bool = False, mask: str = "<mask>") -> TextTokenizer:
    backend = byte_level(*MERGES, pieces=("<s>", "</s>"), add_prefix_space=add_prefix_space)
    backend.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return reads(backend, mask, unknown=None)


BYTES, SPACED = roberta(), roberta(add_prefix_space=True)
CHINESE_PIECES = reads(sentence_pieces("▁", "▁我", "在", "首都", "首", "都", "▁首", "。", "),", "▁(", "a", ")", ","))
ENGLISH = reads(word_pieces("cannot", "can", "not", "##not", "I", "go"))


@pytest.mark.parametrize(
    ("tokenizer", "text", "words", "expected"),
    [
        (BYTES, "(at),", ["(", "at", ")", ","], ["(", "at", ")", ","]),
        (BYTES, "(at),", ["(", "at", ")"], ["(", "at", "),"]),
        (SPACED, "at (at),", ["at", "(", "at", ")", ","], ["Ġat", "Ġ(", "at", ")", ","]),
        (CHINESE_PIECES, "我在首都。", ["我", "在", "首", "都", "。"], ["▁我", "在", "首", "都", "。"]),
        (CHINESE_PIECES, "我在首都。", ["我", "在", "首都"], ["▁我", "在", "首都", "。"]),
        (CHINESE_PIECES, "(a),", [")", ","], ["▁(", "a", ")", ","]),
        (ENGLISH, "I cannot go", ["can", "not"], ["I", "can", "not", "go"]),
        # A part of a word that nothing else ends at is a mistake, and parts nothing.
        (ENGLISH, "I cannot go", ["not"], ["I", "cannot", "go"]),
        (BYTES, "at[MASK]),", ["at", ")", ","], ["at", "<mask>", ")", ","]),
        (BYTES, "[MASK]),", ["[", "MASK", "]"], ["<mask>", "),"]),
    ],
)
def test_pieces_are_parted_where_a_word_has_none(
    tokenizer: TextTokenizer, text: str, words: list[str], expected: list[str]
) -> None:
    assert pieces(tokenizer, text, words) == expected


@pytest.mark.parametrize("mask", ["<mask>", "<m>", "<<a longer mask>>"])
def test_spans_and_words_of_a_parted_text_are_the_callers(mask: str) -> None:
    tokenizer, texts = roberta(mask=mask), ("[MASK] (at), at [MASK]),", "at),")
    asked = marks(texts[0], ["(", "at", ")", ",", "at", ")", ","]) + marks(texts[1], [")", ","], 1)
    [read] = tokenizer.encode_all([texts], words=[asked])
    found = [piece for piece in read.pieces(tokenizer) if not piece.special]
    assert {(piece.segment, piece.start, piece.end) for piece in found} >= set(asked)
    assert [texts[piece.segment][piece.start : piece.end] for piece in found].count("[MASK]") == 2
    assert [piece.word for piece in found] == [*range(9), *range(3)]
    plain = tokenizer.encode(*texts)
    special = [piece.id for piece in plain.pieces(tokenizer) if piece.special]
    assert [piece.id for piece in read.pieces(tokenizer) if piece.special] == special
    assert read.sequence.ids[0] == plain.sequence.ids[0]
    assert len(read.sequence.segments) == len(read) == len(plain) + 3


@pytest.mark.parametrize(("cut_start", "kept"), [(False, ["at", ")", ","]), (True, [",", "at", "at"])])
def test_a_parted_text_is_truncated_on_the_models_side(cut_start: bool, kept: list[str]) -> None:
    tokenizer, text = roberta(), "at), at at"
    tokenizer.max_tokens, tokenizer.cut_start = 5, cut_start
    [read] = tokenizer.encode_all([(text,)], truncate=True, words=[marks(text, ["at", ")", ",", "at", "at"])])
    assert [text[piece.start : piece.end] for piece in read.pieces(tokenizer) if not piece.special] == kept
    assert (len(read), read.truncated) == (5, 2)
    assert read.words[0] is read.words[-1] is None


@pytest.mark.parametrize("cut_start", [False, True])
@pytest.mark.parametrize(("first", "second", "room"), [(7, 2, 8), (2, 7, 8), (5, 5, 7), (5, 5, 8), (1, 9, 4), (9, 9, 1)])
def test_the_longer_text_is_cut_one_token_at_a_time(first: int, second: int, room: int, cut_start: bool) -> None:
    of_texts = [0] * first + [1] * second
    numbers = list(range(len(of_texts)))
    parted = PartedEncoding(numbers, numbers, list(map(str, numbers)), list(of_texts), list(numbers), [(0, 1)] * len(numbers))
    while len(numbers) > room:
        longer = max((0, 1), key=lambda text: sum(of_texts[number] == text for number in numbers))
        places = [number for number in numbers if of_texts[number] == longer]
        numbers.remove(places[0 if cut_start else -1])
    assert parted.cut(room, start=cut_start).ids == numbers
