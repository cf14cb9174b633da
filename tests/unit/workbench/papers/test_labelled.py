"""Labelled texts are found by what files contain, and words to mask in a treebank's sentences."""

from pathlib import Path

from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.items.labelled import labelled_files
from bertscope_workbench.papers.measures.layers import masked_word
from bertscope_workbench.readers.conllu import read_sentences
from bertscope_workbench.readers.item_lists import PartialItems

from tests.support.treebank_sentence import SENTENCE


def test_files_are_known_by_what_they_contain(tmp_path: Path) -> None:
    for name, text in {
        "a_train.tsv": "sentence\tlabel\nfine\t1\nbad\t0\n",
        "rte.tsv": "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t0\n",
        "other.tsv": "country\tcapital\na\tb\n",
        "broken.tsv": "text\tlabel\na\t1\nb\t-1\n",
        ".hidden.tsv": "text\tlabel\na\t1\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [(each.path.name, each.of_pairs, each.inputs) for each in labelled_files(Data(tmp_path, limit=1))] == [
        ("broken.tsv", False, ["a"]),  # Its second line is not read.
        ("rte.tsv", True, [("a", "b")]),
        ("a_train.tsv", False, ["fine"]),
    ]
    assert [each.path.name for each in labelled_files(Data(tmp_path))] == ["rte.tsv", "a_train.tsv"]
    assert labelled_files(Data()) == []


def test_the_middle_content_word_is_masked(tmp_path: Path) -> None:
    (tmp_path / "words.conllu").write_text(SENTENCE.format("", "", ""), encoding="utf-8")
    (sentence,) = read_sentences(tmp_path / "words.conllu", None, lambda sentence: sentence, PartialItems())
    assert masked_word(sentence) == ("The cat [MASK] there.", "sat")
    for row in sentence.rows.values():
        row[3] = "DET"
    assert masked_word(sentence) is None
