"""Each word that the caller marks has a piece of its own, in the text as it is written."""

from collections.abc import Sequence

import pytest
from bertscope_service.checkpoints.marked_words import PartedEncoding
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors


def byte_level(*, add_prefix_space: bool = False, mask: str = "<mask>") -> TextTokenizer:
    merges = [(")", ","), ("a", "t"), ("i", "n"), ("Ġ", "at"), ("Ġ", "("), ("c", "a"), ("n", "ot"), ("o", "t")]
    entries = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    entries += [piece for pair in merges for piece in (*pair, "".join(pair)) if piece not in entries]
    backend = Tokenizer(models.BPE({entry: number for number, entry in enumerate(dict.fromkeys(entries))}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    backend.add_special_tokens([AddedToken(mask, special=True, lstrip=True)])
    backend.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return TextTokenizer(backend, mask, backend.token_to_id(mask), None, 512)


def sentence_pieces() -> TextTokenizer:
    pieces = ["<unk>", "▁", "▁我", "在", "首都", "首", "都", "▁首", "。", "),", "▁(", "a", ")", ","]
    backend = Tokenizer(models.Unigram([(piece, -1.0 - 0.1 * len(piece)) for piece in pieces], unk_id=0))
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    return TextTokenizer(backend, None, None, 0, 512)


def wordpiece() -> TextTokenizer:
    entries = ["[UNK]", "cannot", "can", "not", "##not", "I", "go"]
    backend = Tokenizer(models.WordPiece({entry: number for number, entry in enumerate(entries)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return TextTokenizer(backend, None, None, 0, 512)


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


BYTES, SPACED, CHINESE, ENGLISH = byte_level(), byte_level(add_prefix_space=True), sentence_pieces(), wordpiece()


@pytest.mark.parametrize(
    ("tokenizer", "text", "words", "expected"),
    [
        (BYTES, "(at),", ["(", "at", ")", ","], ["(", "at", ")", ","]),
        (BYTES, "(at),", ["(", "at", ")"], ["(", "at", "),"]),
        (SPACED, "at (at),", ["at", "(", "at", ")", ","], ["Ġat", "Ġ(", "at", ")", ","]),
        (CHINESE, "我在首都。", ["我", "在", "首", "都", "。"], ["▁我", "在", "首", "都", "。"]),
        (CHINESE, "我在首都。", ["我", "在", "首都"], ["▁我", "在", "首都", "。"]),
        (CHINESE, "(a),", [")", ","], ["▁(", "a", ")", ","]),
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
    tokenizer, texts = byte_level(mask=mask), ("[MASK] (at), at [MASK]),", "at),")
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
    tokenizer, text = byte_level(), "at), at at"
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
