"""Texts with marked words: checked, read from treebanks and JSON Lines, and put into requests."""

from pathlib import Path
from typing import Any

import bertscope
import pytest
from bertscope.questions.attention import relation_requests as requests
from bertscope.questions.attention.marked_requests import score_features_request, score_relations_request
from bertscope.questions.attention.marked_texts import Mark
from bertscope.values.spans import Span

CAT = bertscope.RelationText("The cat sleeps.", [("nsubj", 2, 1), ("det", 1, 0)])
SENTENCE = """\
# sent_id = 1
# text = Il parle du chat, didn't it?
1\tIl\til\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tparle\tparler\tVERB\t_\tMood=Ind\t0\troot\t_\t_
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\t_
3\tde\tde\tADP\t_\t_\t5\tcase\t_\t_
4\tle\tle\tDET\t_\t_\t5\tdet\t_\t_
4.1\tpetit\tpetit\tADJ\t_\t_\t_\t_\t5:amod\t_
5\tchat\tchat\tNOUN\t_\t_\t2\tobl:arg\t_\tSpaceAfter=No
6\t,\t,\tPUNCT\t_\t_\t5\tpunct\t_\t_
7-8\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
7\tdid\tdo\tAUX\t_\t_\t2\tparataxis\t_\t_
8\tn't\tnot\tPART\t_\tPolarity=Neg\t7\tadvmod\t_\t_
9\tit\tit\tPRON\t_\t_\t7\tnsubj:pass\t_\tSpaceAfter=No
10\t?\t?\tPUNCT\t_\t_\t2\tpunct\t_\t_
"""
ROLES = """\
# text = Dogs bark and run.
1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\t_\tARG0\tARG0
2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\tbark.01\tV\t_
3\tand\tand\tCCONJ\tCC\t_\t4\tcc\t_\t_\t_\t_\t_
4\trun\trun\tVERB\tVBP\t_\t2\tconj\t_\tSpaceAfter=No\trun.02\t_\tV
5\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_\t_\t_\t_

# text = Yes
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\t_\t
"""


def written(folder: Path, text: str | bytes, name: str = "some.conllu") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def named(text: bertscope.RelationText) -> list[tuple[str, str, str]]:
    """The pairs, each word as it is written."""
    words = [text.text[start:end] for start, end, _ in text.words or ()]  # type: ignore[index, misc]  # not pairs of texts
    return [(relation, words[source], words[target]) for relation, source, target in text.pairs]


def test_words_are_the_parts_between_white_space_unless_given():
    assert CAT.words == (Span(0, 3), Span(4, 7), Span(8, 15))
    assert named(CAT) == [("nsubj", "sleeps.", "cat"), ("det", "cat", "The")]
    pair = bertscope.RelationText(("a  b", " c"), [("r", 1, 0)])
    assert pair.words == (Span(0, 1), Span(3, 4), Span(1, 2, 1))
    given = bertscope.RelationText("The cat.", [], [(0, 3), (4, 7, 0)])
    assert given.words == (Span(0, 3), Span(4, 7))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bertscope.RelationText(3, []), "text"),  # type: ignore[arg-type]
        (lambda: bertscope.RelationText("a b", [("r", 0)]), r"pairs\[0\]: must be a tuple"),  # type: ignore[list-item]
        (lambda: bertscope.RelationText("a b", [(1, 0, 1)]), "relation"),  # type: ignore[list-item]
        (lambda: bertscope.RelationText("a b", [("r", -1, 1)]), "source"),
        (lambda: bertscope.RelationText("a b", [("r", 0, 1)], [(0,)]), r"words\[0\]"),  # type: ignore[list-item]
        (lambda: bertscope.RelationText("a b", "rst"), "pairs"),  # type: ignore[arg-type]
        (lambda: bertscope.FeatureText("a b", [("f", 0)]), r"marks\[0\]"),  # type: ignore[list-item]
        (lambda: bertscope.FeatureText("a b", [("f", 0, 1.5)]), "integer"),  # type: ignore[list-item]
    ],
)
def test_values_that_cannot_be_sent_are_refused(make: Any, message: str):
    with pytest.raises(bertscope.InvalidArgument, match=message):
        make()


def test_dependencies_link_words_at_their_exact_places(tmp_path):
    (text,) = bertscope.read_conllu(written(tmp_path, SENTENCE))
    assert text.text == "Il parle du chat, didn't it?"
    assert named(text) == [
        ("nsubj", "parle", "Il"),
        ("case", "chat", "du"),
        ("det", "chat", "du"),
        ("obl:arg", "parle", "chat"),
        ("punct", "chat", ","),
        ("parataxis", "parle", "did"),
        ("advmod", "did", "n't"),
        ("nsubj:pass", "did", "it"),
        ("punct", "parle", "?"),
    ]
    (text,) = bertscope.read_conllu(written(tmp_path, SENTENCE), subtypes=False)
    assert {"obl", "nsubj"} <= {pair[0] for pair in text.pairs}


def test_a_text_is_put_together_where_the_file_has_none(tmp_path):
    without = "".join(line + "\n" for line in SENTENCE.splitlines() if not line.startswith("#"))
    (text,) = bertscope.read_conllu(written(tmp_path, without.replace("\n", "\r\n")))
    assert text.text == "Il parle du chat, didn't it?"


def test_features_are_parts_of_speech_subjects_objects_and_negations(tmp_path):
    (text,) = bertscope.read_conllu_features(written(tmp_path, b"\xef\xbb\xbf" + SENTENCE.encode()))
    marks = {(mark[0], text.text[mark[1] : mark[2]]) for mark in text.marks}
    assert {("PRON", "Il"), ("subject", "Il"), ("subject", "it"), ("negation", "n't"), ("punctuation", "?")} <= marks
    assert {("ADP", "du"), ("DET", "du"), ("NOUN", "chat"), ("AUX", "did")} <= marks
    assert text.marks[0] == Mark("PRON", 0, 2)


def test_roles_link_predicates_with_arguments(tmp_path):
    texts = bertscope.read_propbank(written(tmp_path, ROLES))
    assert [named(text) for text in texts] == [[("ARG0", "bark", "Dogs"), ("ARG0", "run", "Dogs")], []]
    assert len(bertscope.read_conllu(written(tmp_path, ROLES))) == 2
    with pytest.raises(bertscope.InvalidArgument, match="read_conllu"):
        bertscope.read_propbank(written(tmp_path, SENTENCE))
    broken = ROLES.replace("bark.01\tV\t_", "bark.01\tV")
    texts = bertscope.read_propbank(written(tmp_path, f"{broken}\n{ROLES}"))
    assert len(texts) == 3
    assert "line 3: has 12 columns; 13 belong" in str(texts.problems[0])


@pytest.mark.parametrize(
    ("before", "after", "line", "problem"),
    [
        ("6\t,\t,\tPUNCT\t_\t_\t5\tpunct\t_\t_", "6\t,\tPUNCT", 10, "has 3 of the 10 columns"),
        ("6\t,", "7\t,", 10, "where word 6 is due"),
        ("6\t,", "x\t,", 10, "where word 6 is due"),
        ("5\tpunct", "99\tpunct", 10, "has the head '99'"),
        ("5\tpunct", "6\tpunct", 10, "has the head '6'"),
        ("5\tpunct", "a\tpunct", 10, "has the head 'a'"),
        ("5\tpunct", "5\t", 10, "has no relation"),
        ("5\tpunct", "9" * 5000 + "\tpunct", 10, "has the head '" + "9" * 40 + "'..."),
        ("6\t,", "9" * 5000 + "\t,", 10, "where word 6 is due"),
        ("6\t,", "٦\t,", 10, "where word 6 is due"),
        ("5\tchat", "5\tchien", 9, "'chien' is not the next word"),
        ("7-8\tdidn't", "7-20\tdidn't", 11, "stands for words up to 20"),
        ("Il\til", "\til", 3, "columns"),
    ],
)
def test_a_broken_line_is_named_and_the_rest_is_read(tmp_path, before, after, line, problem):
    assert before in SENTENCE
    path = written(tmp_path, f"{SENTENCE.replace(before, after, 1)}\n{SENTENCE}\n\n# a comment alone\n\n{SENTENCE}")
    texts = bertscope.read_conllu(path)
    assert len(texts) == 2
    assert texts.lines == [19, 38]
    (found,) = texts.problems
    assert str(found).startswith(f"{path}, line {line}: ")
    assert problem in str(found)


def test_words_without_a_name_of_their_role_or_part_of_speech_are_named(tmp_path):
    path = written(tmp_path, f"{ROLES.replace('ARG0', '', 1)}\n{SENTENCE.replace('ADP', '')}\n{ROLES}")
    assert "line 2: has no role" in str(bertscope.read_propbank(path).problems[0])
    assert "line 16: has no part of speech" in str(bertscope.read_conllu_features(path).problems[0])


def test_a_line_that_is_no_utf8_is_named_and_the_rest_is_read(tmp_path):
    texts = bertscope.read_conllu(written(tmp_path, SENTENCE.encode().replace(b"chat", b"ch\xe2t") + b"\n" + SENTENCE.encode()))
    assert len(texts) == 1
    assert "line 2: is not UTF-8" in str(texts.problems[0])


def test_a_limit_is_of_sentences(tmp_path):
    assert len(bertscope.read_conllu(written(tmp_path, f"{SENTENCE}\n" * 5), limit=2)) == 2


@pytest.mark.parametrize("text", ["", "# only\n\n", "one two\n"])
def test_a_file_without_a_sentence_is_an_error(tmp_path, text):
    with pytest.raises(bertscope.InvalidArgument, match=r"some\.conllu"):
        bertscope.read_conllu(written(tmp_path, text))


def test_json_lines_hold_places_of_words(tmp_path):
    lines = '{"text": "a b", "pairs": [["r", 0, 1]]}\n{"text": "a", "text_pair": "b", "words": [[0, 1, 1]], "pairs": []}\n'
    first, second = bertscope.read_relation_texts(written(tmp_path, lines, "some.jsonl"))
    assert named(first) == [("r", "a", "b")]
    assert (second.text, second.words) == (("a", "b"), (Span(0, 1, 1),))
    (marked,) = bertscope.read_feature_texts(written(tmp_path, '{"text": "a b", "marks": [["f", 2, 3]]}\n', "some.jsonl"))
    assert marked.marks == (Mark("f", 2, 3),)
    with pytest.raises(bertscope.InvalidArgument, match=r"line 1: .*pairs\[0\]"):
        bertscope.read_relation_texts(written(tmp_path, '{"text": "a b", "pairs": [["r", 0]]}\n', "some.jsonl"))
    with pytest.raises(bertscope.InvalidArgument, match=r"must end with \.jsonl"):
        bertscope.read_feature_texts(tmp_path / "some.csv")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not JSON"),
        ("null", "is not a JSON object"),
        ('{"text": "a b"}', "has no key 'pairs'; it has 'text'"),
        ('{"text": "a \\ud800", "pairs": []}', "lone surrogate"),
        ('{"text": "a b", "pairs": [["", 0, 1]]}', "pairs[0]'s relation: is empty; name it"),
        ('{"text": "a b", "pairs": [["r", 0, -1]]}', "pairs[0]'s target: must be 0"),
    ],
)
def test_a_broken_line_of_json_is_named_and_the_rest_is_read(tmp_path, line, problem):
    good = '{"text": "a b", "pairs": [["r", 0, 1]]}'
    path = written(tmp_path, f"\ufeff{good}\n\n{line}\n{good}\n{good}", "some.jsonl")
    texts = bertscope.read_relation_texts(path, limit=2)
    assert texts.lines == [1, 4]
    (found,) = texts.problems
    assert str(found).startswith(f"{path}, line 3: ")
    assert problem in str(found)
    with pytest.raises(bertscope.InvalidArgument, match="line 1: is not UTF-8"):
        bertscope.read_relation_texts(written(tmp_path, b"\xff\n{\n", "some.jsonl"))
    with pytest.raises(bertscope.InvalidArgument, match="has no line to read"):
        bertscope.read_relation_texts(written(tmp_path, "\n \n", "some.jsonl"))


def test_requests_name_the_relations_of_their_texts():
    request = score_relations_request()
    texts = [CAT, bertscope.RelationText("a b", [("det", 0, 1)])]
    message = requests.with_relation_texts(request, texts)
    assert list(message.relations) == ["nsubj", "det"]
    assert [[(pair.relation, pair.source, pair.target) for pair in text.pairs] for text in message.texts] == [
        [(0, 2, 1), (1, 1, 0)],
        [(1, 0, 1)],
    ]
    assert [(word.start, word.end) for word in message.texts[1].words] == [(0, 1), (2, 3)]
    only = requests.with_relation_texts(score_relations_request(relations=["det", "other"]), texts)
    assert list(only.relations) == ["det", "other"]
    assert [len(text.pairs) for text in only.texts] == [1, 1]
    features = score_features_request(special_tokens=True)
    marked = requests.with_feature_texts(features, [bertscope.FeatureText("a b", [("f", 0, 1), ("g", 2, 3)])])
    assert [(span.feature, span.span.start) for span in marked.texts[0].spans] == [(0, 0), (1, 2)]


def test_texts_without_a_pair_are_not_asked_about():
    texts = [bertscope.RelationText("a", []), CAT, bertscope.RelationText("b c", [("obj", 0, 1)]), CAT]
    asked = requests.asked_relation_texts(texts, ["nsubj"])
    assert (asked.total, list(asked.items), list(asked.numbers or ())) == (2, [CAT, CAT], [1, 3])
    lazy = requests.asked_relation_texts(iter(texts), [])
    assert (lazy.total, len([*lazy.items]), list(lazy.numbers or ())) == (None, 3, [1, 2, 3])
    plain = [bertscope.FeatureText("a", [])]
    assert requests.asked_feature_texts(plain, [], special_tokens=True).total == 1
    assert requests.asked_feature_texts(plain, [], special_tokens=False).total == 0
    with pytest.raises(bertscope.InvalidArgument, match=r"texts\[1\]: must be a RelationText, not str"):
        requests.asked_relation_texts([CAT, "text"], [])  # type: ignore[list-item]
