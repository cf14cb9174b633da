"""Entries of a list have different names, and the text that they fill is the one that was scored."""

import pytest
from bertscope_service.checkpoints.entry_names import entry_names, phrase_names, write_in_place
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors


def byte_level() -> TextTokenizer:
    entries = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "most", "Ġmost", "app", "Ġwalk", "er", "pm", "ost"]
    backend = Tokenizer(models.BPE({entry: number for number, entry in enumerate(entries)}, []))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    return with_mask(backend, "<mask>")


def wordpiece() -> TextTokenizer:
    entries = ["[UNK]", "the", "walk", "##er", "er", "app", "##most", "most", "(", "[SEP]"]
    backend = Tokenizer(models.WordPiece({entry: number for number, entry in enumerate(entries)}, unk_token="[UNK]"))
    backend.normalizer, backend.decoder = normalizers.BertNormalizer(lowercase=True), decoders.WordPiece(prefix="##")
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return with_mask(backend, "[MASK]", lstrip=False)


def sentence_pieces(split: bool = True) -> TextTokenizer:
    pieces = ["<unk>", "▁", "▁most", "most", "▁walk", "er", "▁app", "(", "▁(", "都", "▁都", "▁中", "国"]
    backend = Tokenizer(models.Unigram([(piece, -1.0 * number) for number, piece in enumerate(pieces)], unk_id=0))
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace]) if split else metaspace
    return with_mask(backend, "<mask>", lstrip=split)


def with_mask(backend: Tokenizer, mask: str, *, lstrip: bool = True) -> TextTokenizer:
    backend.add_special_tokens([AddedToken(mask, special=True, lstrip=lstrip)])
    return TextTokenizer(backend, mask, backend.token_to_id(mask), 0, 512)


BYTES, WORDS, PIECES, UNSPLIT = byte_level(), wordpiece(), sentence_pieces(), sentence_pieces(split=False)


@pytest.mark.parametrize(
    ("tokenizer", "entries", "expected"),
    [
        (BYTES, ["most", "Ġmost", "er"], ["most", "·most", "er"]),
        (BYTES, ["Ġmost", "er"], ["most", "er"]),
        (PIECES, ["▁most", "most", "▁都", "都"], ["·most", "most", "·都", "都"]),
        (WORDS, ["er", "##er", "##most"], ["er", "##er", "most"]),
        (WORDS, ["er", "er"], ["er", "er"]),
    ],
)
def test_entries_that_are_written_alike_are_told_apart(
    tokenizer: TextTokenizer, entries: list[str], expected: list[str]
) -> None:
    ids = [tokenizer.backend.token_to_id(entry) for entry in entries]
    assert entry_names(tokenizer, ids) == expected


def test_phrases_of_the_same_letters_are_named_by_their_entries() -> None:
    phrases = [["walk", "##er"], ["walk", "er"], ["app", "##most"]]
    ids = [tuple(map(WORDS.backend.token_to_id, phrase)) for phrase in phrases]
    assert phrase_names(WORDS, ids) == ["walker", "walk er", "appmost"]
    same = [tuple(map(BYTES.backend.token_to_id, phrase)) for phrase in (["app", "most"], ["app", "m", "ost"], ["Ġwalk"])]
    assert phrase_names(BYTES, same) == ["app+most", "app+m+ost", "walk"]


@pytest.mark.parametrize(
    ("tokenizer", "text", "entry", "expected"),
    [
        (BYTES, "app[MASK]", "Ġmost", "app most"),
        (BYTES, "app[MASK]", "most", "appmost"),
        (BYTES, "app [MASK]", "Ġmost", "app most"),
        (BYTES, "a walk [MASK]", "er", "a walker"),
        (BYTES, "[MASK] walk", "Ġmost", "most walk"),
        (BYTES, "([MASK])", "Ġmost", "( most)"),
        (WORDS, "the walk [MASK]", "##er", "the walker"),
        (WORDS, "the walk[MASK]", "er", "the walk er"),
        (WORDS, "the walk[MASK].", "##er", "the walker."),
        (WORDS, "([MASK])", "most", "(most)"),
        (WORDS, "[MASK] walk", "##er", "er walk"),
        (PIECES, "walk [MASK]", "er", "walker"),
        (PIECES, "walk[MASK]", "▁most", "walk most"),
        (PIECES, "中国[MASK]。", "都", "中国都。"),
        (PIECES, "中国[MASK]。", "▁都", "中国 都。"),
        # Here the blank is a piece of its own before the mask, so that the entry stands behind it.
        (UNSPLIT, "walk [MASK]", "er", "walk er"),
    ],
)
def test_the_text_that_was_scored_is_written(tokenizer: TextTokenizer, text: str, entry: str, expected: str) -> None:
    read = tokenizer.encode(text)
    place = list(read.sequence.ids).index(tokenizer.mask_id)
    written = write_in_place(tokenizer, read, place, (tokenizer.backend.token_to_id(entry),))
    start, end = read.span(place)
    assert text[: start - written.removed_blanks] + written.text + text[end:] == expected
