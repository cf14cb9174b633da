"""Which pieces of a vocabulary may go, by tokenizers made here."""

import json
from collections.abc import Sequence

import pytest
from bertscope_service.compression.reduced_tokenizer import check_reducible, count_pieces, needed_pieces, without_others
from bertscope_service.errors import Unsupported
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def finished(tokenizer: Tokenizer, begin: int = 2) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIALS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", begin), ("[SEP]", begin + 1)]
    )
    return tokenizer


def word_pieces() -> Tokenizer:
    pieces = [*SPECIALS, "a", "b", "c", "abc", "ab", "##a", "##b", "##c", "##bc", "cab", "x", "##yz", "xyz", "##y"]
    tokenizer = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return finished(tokenizer)


def byte_pairs() -> Tokenizer:
    merges = [("a", "b"), ("ab", "c"), ("c", "a"), ("abc", "ca"), ("b", "a")]
    pieces = [*SPECIALS, "a", "b", "c", *(one + other for one, other in merges)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return finished(tokenizer)


def unigram() -> Tokenizer:
    scores = [("a", -3.0), ("b", -3.0), ("c", -3.0), ("abc", -4.0), ("ab", -3.5), ("bca", -5.0), ("q!", -6.0), ("!", -9.0)]
    tokenizer = Tokenizer(models.Unigram([(text, 0.0) for text in SPECIALS] + scores, unk_id=1))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return finished(tokenizer)


def reduce(tokenizer: Tokenizer, texts: Sequence[str], min_count: int = 1) -> Tokenizer:
    written = json.loads(tokenizer.to_str())
    check_reducible(written)
    counts = count_pieces(tokenizer, texts, lambda: None)
    return Tokenizer.from_str(json.dumps(without_others(written, needed_pieces(written, counts, min_count))))


def pieces(tokenizer: Tokenizer) -> set[str]:
    vocabulary = tokenizer.get_vocab()
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
    return vocabulary.keys() - {*SPECIALS}


def test_word_pieces() -> None:
    found = reduce(word_pieces(), ["abc cabc"])
    # "z" has no piece of its own, so what writes it stays; "x" and "##y" are single characters.
    assert pieces(found) == {"a", "b", "c", "##a", "##b", "##c", "abc", "cab", "x", "##yz", "xyz", "##y"}
    assert found.encode("abc cabc").tokens == word_pieces().encode("abc cabc").tokens
    assert found.encode("ab").tokens == ["[CLS]", "a", "##b", "[SEP]"]
    assert found.encode("abc").ids == [2, *found.encode("abc", add_special_tokens=False).ids, 3]


def test_byte_pairs_keep_what_leads_to_them() -> None:
    found = reduce(byte_pairs(), ["abcca"])
    assert pieces(found) == {"a", "b", "c", "ab", "abc", "ca", "abcca"}
    assert found.encode("abcca").tokens == ["[CLS]", "abcca", "[SEP]"]
    assert found.encode("bab").tokens == ["[CLS]", "b", "ab", "[SEP]"] == byte_pairs().encode("bab").tokens
    assert found.encode("ba").tokens == ["[CLS]", "b", "a", "[SEP]"]
    assert reduce(byte_pairs(), ["ab"]).encode("abcca").tokens == ["[CLS]", "ab", "c", "c", "a", "[SEP]"]


def test_unigram() -> None:
    found = reduce(unigram(), ["abc"])
    assert pieces(found) == {"a", "b", "c", "abc", "q!", "!"}  # "!" is the least likely, "q!" alone writes "q"
    assert found.encode("abc").tokens == unigram().encode("abc").tokens == ["[CLS]", "abc", "[SEP]"]
    assert found.encode("ab").tokens == ["[CLS]", "a", "b", "[SEP]"]
    assert found.encode("z").ids[1] == 1


def test_rare_pieces_go_too() -> None:
    found = reduce(word_pieces(), ["abc cab", "abc"], min_count=2)
    assert "abc" in pieces(found)
    assert "cab" not in pieces(found)


def test_special_tokens_that_come_last_get_new_ids() -> None:
    scores = [("<unk>", 0.0), ("a", -3.0), ("b", -3.0), ("ab", -4.0), ("c", -5.0)]
    tokenizer = finished(Tokenizer(models.Unigram(scores, unk_id=0)), begin=7)
    assert tokenizer.encode("ab").ids == [7, 3, 8]
    assert reduce(tokenizer, ["b"]).encode("ab").ids == [6, 1, 2, 7]


def test_what_is_unknown_costs_what_it_did() -> None:
    """Its score is that of the least likely piece, less a constant."""
    scores = [("<unk>", 0.0), ("ab", -14.0), ("cd", -14.0), ("bcd", -1.0), ("q", -1.0), ("qq", -30.0)]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=0))
    found = reduce(tokenizer, ["abcd", "bcd"])
    assert found.encode("abcd").tokens == tokenizer.encode("abcd").tokens == ["ab", "cd"]


def test_special_tokens_that_nobody_declared() -> None:
    """Those that are added to texts and to batches stay, under their new ids."""
    names = ["x", "xx", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "a", "##x"]
    tokenizer = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    template = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 3), ("[SEP]", 4)])
    for processor in (processors.BertProcessing(("[SEP]", 4), ("[CLS]", 3)), template):
        tokenizer.post_processor = processors.Sequence([processor])
        tokenizer.enable_padding(pad_id=5, pad_token="[PAD]")
        found = reduce(tokenizer, ["a"])
        assert "xx" not in found.get_vocab()
        (short, long) = found.encode_batch(["a", "a a"])
        assert [found.id_to_token(number) for number in short.ids] == ["[CLS]", "a", "[SEP]", "[PAD]"] == short.tokens
        assert [found.id_to_token(number) for number in long.ids] == ["[CLS]", "a", "a", "[SEP]"] == long.tokens


def test_kinds_that_can_not_be_reduced() -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    suffixed = Tokenizer(models.BPE({"a</w>": 0}, [], end_of_word_suffix="</w>"))
    for tokenizer, kind in ((words, "WordLevel"), (suffixed, "BPE with affixes")):
        with pytest.raises(Unsupported, match=kind) as caught:
            reduce(tokenizer, ["a"])
        assert caught.value.reason == "VOCABULARY_UNSUPPORTED"
