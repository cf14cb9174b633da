"""Words of a text for tokenizers that part it at blanks alone: sentence pieces, and scripts without blanks."""

import unicodedata
from collections import Counter
from collections.abc import Sequence

import pytest
from bertscope_service.analyses.candidates import EntryWords
from bertscope_service.checkpoints.ascii_tokenizer import LONG_TEXT, printable_ascii
from bertscope_service.checkpoints.entry_words import KeptWords
from bertscope_service.checkpoints.marked_words import Mark
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from tokenizers import Encoding, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors


def sentence_pieces(*pieces: str) -> TextTokenizer:
    scored = [("<unk>", 0.0), *((piece, -1.0 - 0.1 * len(piece)) for piece in pieces)]
    backend = Tokenizer(models.Unigram(scored, unk_id=0))
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    return TextTokenizer(backend, None, None, 0, 512)


def byte_level() -> TextTokenizer:
    """A vocabulary of bytes alone."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend = Tokenizer(models.BPE({entry: number for number, entry in enumerate(sorted(alphabet))}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    return TextTokenizer(backend, None, None, None, 512)


def wordpiece(*pieces: str) -> TextTokenizer:
    backend = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(("[UNK]", *pieces))}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return TextTokenizer(backend, None, None, 0, 512)


LATIN = ("▁(", "▁“", "▁", "Paris", "▁Paris", ")", "”", "/", "London", "▁London", ".", "▁won", "'", "t", "c", "▁c", "est", "),é")
CHINESE = ("▁", "▁我", "我", "在", "巴黎", "和", "伦敦", "。", "3", "月")
THAI = ("▁", "กรุง", "เทพ", "ไ", "ป", "▁ไป", "ที", "่")


def words(tokenizer: TextTokenizer, text: str, pair: str | None = None) -> list[str]:
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
    assert words(sentence_pieces(*pieces), text) == expected


def test_marks_of_direction_join_no_words() -> None:
    assert words(sentence_pieces("▁(", "\u200f", "Paris", ")"), "(\u200fParis)") == ["(\u200f", "Paris", ")"]


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

    tokenizer = sentence_pieces("▁(", "),", ")", ",", "▁", "(")
    encode = tokenizer._encode
    monkeypatch.setattr(tokenizer, "_encode", lambda *given: list(map(Counted, encode(*given))))
    [read] = tokenizer.encode_all([("(),(),(), " * 9,)], words=[marks])
    assert len(read.pieces(tokenizer)) > 40
    lists = {"ids", "tokens", "offsets", "word_ids", "type_ids", "sequence_ids"}
    assert max(made[name] for name in lists) < 8


def test_words_of_a_pair_are_numbered_in_each_text() -> None:
    tokenizer = sentence_pieces(*LATIN)
    read = tokenizer.encode("(Paris)", "London.")
    assert read.words == [0, 1, 2, 0, 1]
    assert words(tokenizer, "(Paris)", "London.") == ["(", "Paris", ")", "London", "."]


def test_the_bytes_of_one_character_are_one_word() -> None:
    assert words(byte_level(), "我在a b),") == ["我", "在", "a", "b", ")", ","]


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
    assert words(byte_level(), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("un café.", ["un", "café", "."]), ("éé un", ["éé", "un"]), ("café-é", ["café", "-", "é"])],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_stripped_accent_belongs_to_its_word(text: str, expected: list[str], form: str) -> None:
    tokenizer = wordpiece("un", "cafe", "ee", "e", ".", "-")
    assert words(tokenizer, unicodedata.normalize(form, text)) == [unicodedata.normalize(form, word) for word in expected]


def test_vowel_signs_that_are_stripped_belong_to_their_word() -> None:
    """To Unicode they don't combine; "हिं" has one behind another, which is kept."""
    assert words(wordpiece("म", "हि", "##द", "."), "में हिंद.") == ["में", "हिंद", "."]


def test_an_accent_that_is_a_piece_is_not_counted_twice() -> None:
    tokenizer = sentence_pieces("▁e", "\u0301", "n", "▁", "e")
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
    tokenizer = sentence_pieces("▁most", "most", "▁a")
    tokenizer.backend.decoder = decoders.Metaspace()
    most, inside, other = (tokenizer.entry(piece) for piece in ("▁most", "most", "▁a"))
    assert most is not None
    assert inside is not None
    assert other is not None
    words = EntryWords(tokenizer)
    assert [word.text for word in words.of([most, other])] == ["most", "a"]
    assert [word.text for word in words.of([most, inside])] == ["·most", "most"]


@pytest.mark.parametrize("length", [10, 2 * LONG_TEXT])
@pytest.mark.parametrize("character", ["\x00", "\x1f", " ", "~", "\x7f", "\x80", "é", "東"])
def test_printable_ascii(length: int, character: str) -> None:
    assert printable_ascii("a" * length + character) is (character in " ~")
