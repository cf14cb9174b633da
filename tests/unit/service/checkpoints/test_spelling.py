"""The pieces of a word in place are those that continue the text: with no blank that the text doesn't have."""

from collections.abc import Sequence

import pytest
from bertscope_service.checkpoints.spelling import SingleEntries, Speller
from tokenizers import Tokenizer, models, normalizers

from tests.support.made_tokenizers import byte_level, numbered, sentence_pieces, word_pieces


def prefixed_bpe(*merges: tuple[str, str]) -> Tokenizer:
    """A sentence-piece BPE whose blanks are written by its normalizer."""
    pieces = ["<unk>", *sorted({letter for pair in merges for letter in "".join(pair)} | set("▁x'"))]
    entries = [*pieces, *("".join(pair) for pair in merges)]
    made = Tokenizer(models.BPE(numbered(entries), list(merges), unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return made


CHINESE = sentence_pieces("▁", "▁x", "x", "中", "国", "首", "都", "首都", "▁都", "北京", "京")
FRENCH = sentence_pieces("▁", "▁x", "x", "'", "'est", "c", "e", "s", "t", "est", "▁est", "es", prepend="first", split=False)
THAI = sentence_pieces("▁", "▁x", "x", "ก", "รุง", "กรุง", "เทพ", "เท", "พ")
ENGLISH = byte_level(("a", "p"), ("ap", "p"), ("app", "l"), ("Ġ", "l"), ("l", "y"), add_prefix_space=True)
SPACED = prefixed_bpe(("▁", "x"), ("s", "t"), ("e", "st"), ("'", "est"), ("▁", "est"))
CASED = word_pieces("x", "t", "##t", "##és", "##é", "##ts", "ts", "-", "in", "##in", "国", "都", "##都", "##ét", "##e")
UNCASED = word_pieces("x", "t", "##t", "xe", "##e", "xet", "ts", "##ts", "##es", lowercase=True)


@pytest.mark.parametrize(
    ("tokenizer", "before", "word", "expected"),
    [
        pytest.param(CHINESE, "首", "都", ["都"], id="Chinese: merges with what precedes"),
        pytest.param(CHINESE, "国", "都", ["都"], id="Chinese: doesn't merge"),
        pytest.param(CHINESE, "首", "都北京", ["都", "北京"], id="Chinese: the first of two pieces merges"),
        pytest.param(CHINESE, "", "都", ["▁都"], id="Chinese: a text's start is behind a blank"),
        pytest.param(CHINESE, " ", "都", ["▁都"], id="Chinese: behind a blank"),
        pytest.param(CHINESE, "あ", "い", ["<unk>"], id="unknown characters are one piece together"),
        pytest.param(FRENCH, "'", "est", ["est"], id="an elision"),
        pytest.param(FRENCH, " ", "est", ["▁est"], id="French: behind a blank"),
        pytest.param(THAI, "ก", "รุง", ["รุง"], id="Thai: no blanks between words"),
        pytest.param(THAI, "ก", "รุงเทพ", ["รุง", "เทพ"], id="Thai: several pieces"),
        pytest.param(ENGLISH, "p", "ly", ["ly"], id="byte-level, add_prefix_space: merges with what precedes"),
        pytest.param(ENGLISH, "p", "ply", ["p", "ly"], id="byte-level: several pieces"),
        pytest.param(ENGLISH, "-", "ly", ["ly"], id="byte-level: behind a hyphen"),
        pytest.param(ENGLISH, "", "ly", ["Ġl", "y"], id="byte-level: at a text's start add_prefix_space adds one"),
        pytest.param(SPACED, "'", "est", ["est"], id="a blank that the normalizer prepends"),
        pytest.param(SPACED, " ", "est", ["▁est"], id="the normalizer's blank where the text has one"),
        pytest.param(CASED, "é", "t", ["##t"], id="WordPiece: merges with an accented letter"),
        pytest.param(CASED, "é", "ts-in", ["##ts", "-", "in"], id="WordPiece: a split ends what continues"),
        pytest.param(CASED, "ø", "t", ["##t"], id="WordPiece: behind an unknown letter"),
        pytest.param(CASED, "-", "t", ["t"], id="WordPiece: behind a mark a word begins"),
        pytest.param(CASED, "国", "都", ["都"], id="WordPiece: each ideograph is a word"),
        pytest.param(
            CASED, "😀", "t-in", ["##t", "-", "in"], id="WordPiece: an unknown character takes in the word's start alone"
        ),
        pytest.param(CHINESE, "龘", "龘都", ["<unk>", "都"], id="Chinese: of two unknown characters one is the word's"),
        pytest.param(UNCASED, "e\u0301", "t", ["##t"], id="WordPiece: an accent with its letter"),
        pytest.param(UNCASED, "e\u00ad", "t", ["##t"], id="WordPiece: a soft hyphen is left out"),
        pytest.param(UNCASED, "\u200f", "t", ["t"], id="WordPiece: a text's start, behind a mark of direction"),
        pytest.param(UNCASED, " \u200b", "t", ["t"], id="WordPiece: behind a blank and one of no width"),
        pytest.param(CHINESE, " \u0301", "都", ["都"], id="sentence pieces keep what others leave out"),
        pytest.param(UNCASED, "é", "t", ["##t"], id="WordPiece: accents are stripped before it merges"),
        pytest.param(UNCASED, "é", "TS", ["##ts"], id="WordPiece: lowered"),
    ],
)
def test_a_word_continues_the_text(tokenizer: Tokenizer, before: str, word: str, expected: Sequence[str]) -> None:
    [ids] = Speller(tokenizer).pieces([word], before)
    assert [tokenizer.id_to_token(token) for token in ids] == expected


def test_words_together_are_spelled_as_each_alone() -> None:
    words = ["都", "北京", " ", "国", "都北京", "首"]
    speller = Speller(CHINESE)
    assert speller.pieces(words, "首") == [speller.pieces([word], "首")[0] for word in words]
    assert speller.pieces([" "], "首") == [()]


def test_a_word_that_merges_with_what_precedes_can_be_a_single_entry() -> None:
    found = SingleEntries(Speller(CHINESE), CHINESE.token_to_id("<unk>")).find(["都", "都北京", "あ"], "首")
    assert found.tolist() == [CHINESE.token_to_id("都"), -1, -1]
