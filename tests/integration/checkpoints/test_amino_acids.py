"""Sequences of amino acids are tokenised as transformers does it, and tokens belong to the letters that were given."""

from pathlib import Path

import pytest
from bertscope_service.checkpoints.check import check_source
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from transformers import AutoTokenizer

from tests.support.proteins import write_proteins

SEQUENCES = ["MKTAYIAKQR", "M K T A Y", "MKT<mask>YIAK", "M K <mask> A", "XBZU.-", "<cls>MK", "M", "MKJ"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_proteins(tmp_path_factory.mktemp("proteins") / "esm")


def test_a_checkpoint_of_a_hub_is_accepted(folder: Path) -> None:
    check_source(inspect(folder))


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_tokens_are_those_of_transformers(folder: Path, sequence: str) -> None:
    ours, theirs = TextTokenizer.load(folder, 64), AutoTokenizer.from_pretrained(folder)
    assert list(ours.encode(sequence).sequence.ids) == theirs(sequence)["input_ids"]
    assert list(ours.encode(sequence, "MK").sequence.ids) == theirs(sequence, "MK")["input_ids"]


def test_each_letter_is_a_word_of_its_own(folder: Path) -> None:
    text = TextTokenizer.load(folder, 64).encode("MK TA")
    assert text.encoding.tokens == ["<cls>", "M", "K", "T", "A", "<eos>"]
    assert text.encoding.offsets[1:5] == [(0, 1), (1, 2), (3, 4), (4, 5)]
    assert text.encoding.word_ids == [None, 0, 1, 2, 3, None]
