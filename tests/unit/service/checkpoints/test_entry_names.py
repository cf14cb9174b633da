"""Entries of a list have different names, and the text that they fill is the one that was scored."""

import pytest
from bertscope_service.checkpoints.entry_names import entry_names, phrase_names, write_in_place
from bertscope_service.checkpoints.tokenizer import TextTokenizer

from tests.support.made_tokenizers import byte_level, reads, sentence_pieces, word_pieces

BYTES = reads(byte_level(pieces=["most", "Ġmost", "app", "Ġwalk", "er", "pm", "ost"]), "<mask>")
WORDS = reads(
    word_pieces("the", "walk", "##er", "er", "app", "##most", "most", "(", "[SEP]", lowercase=True), "[MASK]", lstrip=False
)
ENTRIES = ("▁", "▁most", "most", "▁walk", "er", "▁app", "(", "▁(", "都", "▁都", "▁中", "国")
PIECES, UNSPLIT = (reads(sentence_pieces(*ENTRIES, split=split), "<mask>", lstrip=split) for split in (True, False))


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
