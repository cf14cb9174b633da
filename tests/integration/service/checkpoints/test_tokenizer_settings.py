"""What a folder says of how its tokenizer is used holds here as in transformers."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.errors import FailedPrecondition
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from tests.support.edited_files import edit, say
from tests.support.family import MAX_TOKENS

LONG = " ".join(f"the cat number {number} sat" for number in range(40))


@pytest.fixture
def copy_of(checkpoint: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(copytree(checkpoint(name), tmp_path / name))


@pytest.mark.parametrize("names", [["input_ids", "attention_mask"], ["input_ids", "token_type_ids", "attention_mask"], None])
def test_segments_of_a_pair_are_given_unless_the_named_inputs_lack_them(
    copy_of: Callable[[str], Path], names: list[str] | None
) -> None:
    folder = copy_of("bert")
    if names is not None:
        say(folder / "tokenizer_config.json", model_input_names=names)
    ours, theirs = TextTokenizer.load(folder, MAX_TOKENS), AutoTokenizer.from_pretrained(folder)
    expected = theirs("one cat", "two", return_token_type_ids=names is None or None)
    sequence = ours.encode("one cat", "two").sequence
    assert list(sequence.ids) == expected["input_ids"]
    assert list(sequence.segments) == expected.get("token_type_ids", [0] * len(sequence))
    assert max(sequence.segments) == (0 if names == ["input_ids", "attention_mask"] else 1)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("texts", [(LONG,), (LONG, "short"), ("short", LONG), (LONG, LONG + " too")])
def test_truncation_is_on_the_folders_side(
    copy_of: Callable[[str], Path], name: str, side: str, texts: tuple[str, ...]
) -> None:
    folder = copy_of(name)
    say(folder / "tokenizer_config.json", truncation_side=side)
    expected = AutoTokenizer.from_pretrained(folder)(*texts, truncation="longest_first", max_length=MAX_TOKENS)
    tokenizer = TextTokenizer.load(folder, MAX_TOKENS)
    found = tokenizer.encode(*texts, truncate=True)
    assert list(found.sequence.ids) == expected["input_ids"]
    assert found.truncated > 0
    pieces = [
        piece for piece in found.pieces(TextTokenizer.load(folder, MAX_TOKENS)) if piece.segment == 0 and not piece.special
    ]
    if texts[0] == LONG:
        assert (pieces[0].start > 0, pieces[-1].end < len(LONG)) == (side == "left", side == "right")


def test_dropout_of_merges_is_off(copy_of: Callable[[str], Path], caplog: pytest.LogCaptureFixture) -> None:
    folder = copy_of("roberta")
    path = folder / "tokenizer.json"
    plain = Tokenizer.from_file(str(path)).encode(LONG).ids
    # Some classes of transformers build the model anew, without it.
    say(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    edit(path, lambda written: written["model"].update(dropout=0.5))
    with caplog.at_level(logging.WARNING):
        ours = TextTokenizer.load(folder, 4 * MAX_TOKENS)
    assert [list(ours.encode(LONG).sequence.ids) for _ in range(3)] == [plain] * 3
    assert "dropout 0.5" in caplog.text


WRITTEN_IN_PYTHON = [
    "RoCBertTokenizer",
    "RoFormerTokenizer",
    "XLMTokenizer",
    "FlaubertTokenizer",
    "BertJapaneseTokenizer",
    "BertweetTokenizer",
]


@pytest.mark.parametrize("kind", WRITTEN_IN_PYTHON)
def test_a_tokenizer_json_is_read_whatever_class_the_folder_names(copy_of: Callable[[str], Path], kind: str) -> None:
    folder = copy_of("bert")
    expected = TextTokenizer.load(folder, MAX_TOKENS)
    say(folder / "tokenizer_config.json", tokenizer_class=kind)
    found = TextTokenizer.load(folder, MAX_TOKENS)
    assert found.encode("the [MASK] sat").sequence == expected.encode("the [MASK] sat").sequence
    assert (found.mask_id, found.unknown_id, found.max_tokens) == (expected.mask_id, expected.unknown_id, expected.max_tokens)


@pytest.mark.parametrize(
    ("kind", "named"),
    [("BertJapaneseTokenizer", "BertJapaneseTokenizer"), ("XLMTokenizer", "sacremoses"), ("RoFormerTokenizer", "rjieba")],
)
def test_a_folder_without_a_tokenizer_json_is_told_the_class_or_package(
    copy_of: Callable[[str], Path], kind: str, named: str
) -> None:
    folder = copy_of("bert")
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    (folder / "tokenizer.json").unlink()
    say(folder / "tokenizer_config.json", tokenizer_class=kind)
    with pytest.raises(FailedPrecondition) as caught:
        TextTokenizer.load(folder, MAX_TOKENS)
    assert caught.value.reason == "SOURCE_UNREADABLE"
    assert named in caught.value.message
    assert "it needs a tokenizer.json" in caught.value.message


@pytest.mark.parametrize(("entries", "warned"), [(["the", "Paris"], True), (["the", "paris"], False)])
def test_a_cased_vocabulary_that_is_lowered_in_silence_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, entries: list[str], warned: bool
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *entries]), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        TextTokenizer.load(tmp_path, MAX_TOKENS)
    assert ("Paris" in caplog.text and "do_lower_case" in caplog.text) == warned


@pytest.mark.parametrize(
    ("name", "entry", "word"),
    [("roberta", "##", "##"), ("roberta", "####", "####"), ("bert", "##s", "s"), ("bert", "the", "the")],
)
def test_an_entry_is_named_as_it_is_written(copy_of: Callable[[str], Path], name: str, entry: str, word: str) -> None:
    tokenizer = TextTokenizer.load(copy_of(name), MAX_TOKENS)
    tokenizer.backend.add_tokens([entry])
    token = tokenizer.backend.token_to_id(entry)
    assert tokenizer.word(token) == tokenizer.written([token]) == word
