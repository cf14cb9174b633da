"""Sequences of amino acids are tokenised as transformers does it, and tokens belong to the letters that were given."""

import re
import shutil
from pathlib import Path

import pytest
from bertscope_service.checkpoints.check import check_source
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.errors import FailedPrecondition
from transformers import AutoTokenizer

from tests.support.proteins import VOCABULARY, write_proteins

SEQUENCES = ["MKTAYIAKQR", "M K T A Y", "MKT<mask>YIAK", "M K <mask> A", "XBZU.-", "<cls>MK", "M", "MKJ"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_proteins(tmp_path_factory.mktemp("proteins") / "esm")


def test_a_checkpoint_of_a_hub_is_accepted(folder: Path) -> None:
    check_source(inspect(folder))


def test_tokens_are_those_of_transformers(folder: Path) -> None:
    ours, theirs = TextTokenizer.load(folder, 64), AutoTokenizer.from_pretrained(folder)
    for sequence in SEQUENCES:
        assert list(ours.encode(sequence).sequence.ids) == theirs(sequence)["input_ids"]
        assert list(ours.encode(sequence, "MK").sequence.ids) == theirs(sequence, "MK")["input_ids"]


def test_each_letter_is_a_word_of_its_own(folder: Path) -> None:
    text = TextTokenizer.load(folder, 64).encode("MK TA")
    assert text.encoding.tokens == ["<cls>", "M", "K", "T", "A", "<eos>"]
    assert text.encoding.offsets[1:5] == [(0, 1), (1, 2), (3, 4), (4, 5)]
    assert text.encoding.word_ids == [None, 0, 1, 2, 3, None]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "without <cls>"),
        (VOCABULARY[1:], "without <cls>"),
        (["X-", *VOCABULARY], "the id of <pad> is 2; config.json says 1"),
        ([*VOCABULARY[:6], *VOCABULARY[7:]], "the id of <mask> is 31; config.json says 32"),
        (VOCABULARY * 2, "line 34 has it again"),
        ([*VOCABULARY[:8], "L", *VOCABULARY[9:]], "line 9 has it again"),
        (["<cls>", "<pad>", "<eos>", "<unk>"], "without a letter"),
    ],
)
def test_a_vocabulary_that_would_give_other_letters_is_refused(tmp_path: Path, lines: list[str], said: str) -> None:
    broken = write_proteins(tmp_path / "esm")
    (broken / "vocab.txt").write_text("\n".join(lines), encoding="utf-8")

    def read() -> None:
        check_source(inspect(broken))
        TextTokenizer.load(broken, 64)

    with pytest.raises(FailedPrecondition, match=re.escape(said)):
        read()


def test_a_list_of_more_words_than_the_model_has_is_refused_before_it_is_read(
    checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library would take a minute and gigabytes for a million of them."""
    folder = tmp_path / "bert"
    shutil.copytree(checkpoints["bert"], folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("".join(f"word{number}\n" for number in range(1_000_000)), encoding="utf-8")
    with pytest.raises(FailedPrecondition, match="the number of its lines is 1000000; the model has"):
        check_source(inspect(folder))
