"""Studies: the data that a folder holds, and the page."""

import base64
import re
from pathlib import Path

import bertscope
import pytest
from bertscope_workbench.studies.data import find_data
from bertscope_workbench.studies.inquiry import Rejected
from bertscope_workbench.studies.page import study_page
from bertscope_workbench.studies.report import Picture, Question, Section, Study, Table
from bertscope_workbench.studies.words import ALL, PAPER, with_all_roles

from tests.support.drawn import Page

WORDS = (
    ("1", "Cats", "cat", "NOUN", "_", "_", "2", "nsubj", "_", "_"),
    ("2", "sleep", "sleep", "VERB", "_", "_", "0", "root", "_", "_"),
)
ROLES = (("_", "ARG0"), ("sleep.01", "V"))


def treebank(path: Path) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in WORDS) + "\n", encoding="utf-8")


def propbank(path: Path) -> None:
    rows = (word + role for word, role in zip(WORDS, ROLES, strict=True))
    path.write_text("".join("\t".join(row) + "\n" for row in rows) + "\n", encoding="utf-8")


def test_files_are_known_by_what_they_contain(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    treebank(tmp_path / "more" / "words.conllu")
    propbank(tmp_path / "anything.conllu")
    (tmp_path / "a_train.tsv").write_text("sentence\tlabel\nfine\t1\nbad\t0\n", encoding="utf-8")
    (tmp_path / "rte.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\t1\n", encoding="utf-8")
    (tmp_path / "other.tsv").write_text("country\tcapital\na\tb\n", encoding="utf-8")
    (tmp_path / ".hidden.tsv").write_text("text\tlabel\na\t1\n", encoding="utf-8")
    found = find_data(tmp_path, 1)
    assert found.treebank == tmp_path / "more" / "words.conllu"
    assert found.propbank == tmp_path / "anything.conllu"
    assert [pair[0] for pair in found.dependencies[0].pairs] == ["nsubj"]
    assert [pair[0] for pair in found.roles[0].pairs] == ["ARG0"]
    assert [(each.path.name, each.of_pairs, each.inputs) for each in found.labelled] == [
        ("rte.tsv", True, [("a", "b")]),
        ("a_train.tsv", False, ["fine"]),
    ]
    ((path, why),) = found.unused
    assert path == str(tmp_path / "other.tsv")
    assert "has no column" in why


def test_a_propbank_file_is_a_treebank_too(tmp_path: Path) -> None:
    propbank(tmp_path / "a.conllu")
    propbank(tmp_path / "b.conllu")
    found = find_data(tmp_path)
    assert found.treebank == found.propbank == tmp_path / "a.conllu"
    assert found.unused == [(str(tmp_path / "b.conllu"), f"{tmp_path / 'a.conllu'} is taken; a study reads one")]
    assert {mark[0] for mark in found.features[0].marks} == {"NOUN", "subject", "VERB"}


def test_a_folder_with_nothing_usable_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=r"nothing to study: put a treebank \(\.conllu\)"):
        find_data(tmp_path)
    (tmp_path / "broken.conllu").write_text("1\tone\n", encoding="utf-8")
    with pytest.raises(bertscope.InvalidArgument, match=r"broken\.conllu: has words of 2 columns, not 10"):
        find_data(tmp_path)
    with pytest.raises(bertscope.InvalidArgument, match="is not a folder"):
        find_data(tmp_path / "missing")


def test_a_file_with_a_broken_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    treebank(tmp_path / "some.conllu")
    (tmp_path / "some.tsv").write_text("text\tlabel\na\t1\nb\t-1\n", encoding="utf-8")
    ((path, why),) = find_data(tmp_path).unused
    assert (path, "line 3" in why) == (str(tmp_path / "some.tsv"), True)


def test_roles_are_selected_as_in_the_paper() -> None:
    words = " ".join("abcdefghijklm")
    short = bertscope.RelationText("a b c d", [("ARG0", 1, 0), ("ARG1", 1, 3)])
    far = bertscope.RelationText(words, [("ARG1", 0, 5)])
    both = with_all_roles([short, far])
    assert both[0].pairs == (
        ("ARG0", 1, 0), ("ARG1", 1, 3), (ALL, 1, 0), (ALL, 1, 3), (PAPER, 1, 3),
    )  # fmt: skip
    assert both[1].pairs == (("ARG1", 0, 5), (ALL, 0, 5))


EVIL = '</td><script>alert(1)</script><img src=x onerror="a" \'&amp;\x00'


def test_the_page_escapes_all_texts_and_loads_nothing() -> None:
    question = Question("4.1", EVIL, EVIL, EVIL, EVIL)
    whole = Section(question, [EVIL], [EVIL], [EVIL], [EVIL], [Table(EVIL, [EVIL, "n#"], [[EVIL, "1"]])], [EVIL])
    whole.parts.append(Picture(EVIL, b"<svg/>"))
    text = study_page(Study(EVIL, EVIL, [(EVIL, EVIL)], [whole], [(EVIL, EVIL)]), dark=True)
    page, shown = Page(text), EVIL.replace("\x00", "\ufffd")
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "link", "iframe", "object"})
    (image,) = [attributes for tag, attributes in page.elements if tag == "img"]
    assert image == {"src": "data:image/svg+xml;base64," + base64.b64encode(b"<svg/>").decode(), "alt": shown}
    assert all(attributes.get("href", "#") == "#s4.1" for tag, attributes in page.elements if tag == "a")
    assert "".join(page.texts).count(shown) == 21
    assert "\x00" not in text
    assert re.search(r"url\(|@import|https?:", text) is None


def test_a_section_without_numbers_is_named_as_left_out(stored) -> None:
    section = Section(Question("4.3", "Change", "How much?", "d", "p"), left_out=["no fine-tuned copy is named"])
    stored(texts=[text.strip() for text in Page(study_page(Study("t", "s", [], [section], []))).texts if text.strip()][1:])


def test_rejected_texts_are_one_line_and_none_are_no_line() -> None:
    rejected = Rejected()
    assert rejected.lines() == []
    for word in ("long", "empty"):
        rejected(0, bertscope.InvalidArgument(f"texts[0] is {word}"))
    assert rejected.lines("pairs") == ["2 pairs that the server did not take; the first: texts[0] is long"]
