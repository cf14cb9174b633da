"""Texts with marked words: checked, read from treebanks and JSON Lines, and put into requests."""

from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import pytest
from bertscope.questions.attention import marked_texts as requests
from bertscope.v1.attention_relations_pb2 import ScoreFeaturesRequest, ScoreRelationsRequest
from bertscope.values.requests import request_of

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


def said(found: Any) -> list[Any]:
    """The lines at which texts begin, and what is wrong with those that are left out."""
    return [found.lines, *map(str, found.problems)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, so that no path is in what is said."""
    monkeypatch.chdir(tmp_path)
    return Path()


BROKEN = [
    ("6\t,\t,\tPUNCT\t_\t_\t5\tpunct\t_\t_", "6\t,\tPUNCT"),
    ("6\t,", "7\t,"),
    ("6\t,", "x\t,"),
    ("5\tpunct", "99\tpunct"),
    ("5\tpunct", "6\tpunct"),
    ("5\tpunct", "a\tpunct"),
    ("5\tpunct", "5\t"),
    ("5\tpunct", "9" * 5000 + "\tpunct"),
    ("6\t,", "9" * 5000 + "\t,"),
    ("6\t,", "٦\t,"),
    ("5\tchat", "5\tchien"),
    ("7-8\tdidn't", "7-20\tdidn't"),
    ("Il\til", "\til"),
]


def test_treebanks(folder: Path, stored) -> None:
    plain = written(folder, SENTENCE)
    bare = "".join(line + "\n" for line in SENTENCE.splitlines() if not line.startswith("#")).replace("\n", "\r\n")
    marked = workbench.read_conllu_features(written(folder, b"\xef\xbb\xbf" + SENTENCE.encode(), "bom.conllu"))
    roles = ROLES.replace("bark.01\tV\t_", "bark.01\tV")
    nameless = written(folder, f"{ROLES.replace('ARG0', '', 1)}\n{SENTENCE.replace('ADP', '')}\n{ROLES}", "nameless.conllu")
    latin = written(folder, SENTENCE.encode().replace(b"chat", b"ch\xe2t") + b"\n" + SENTENCE.encode(), "latin.conllu")
    broken = []
    for before, after in BROKEN:
        assert before in SENTENCE
        text = f"{SENTENCE.replace(before, after, 1)}\n{SENTENCE}\n\n# a comment alone\n\n{SENTENCE}"
        broken.append(said(workbench.read_conllu(written(folder, text, "broken.conllu"))))
    stored(
        text=workbench.read_conllu(plain)[0].text,
        put_together=workbench.read_conllu(written(folder, bare, "bare.conllu"))[0].text,
        dependencies=named(workbench.read_conllu(plain)[0]),
        without_subtypes=[pair[0] for pair in workbench.read_conllu(plain, subtypes=False)[0].pairs],
        features=[[*mark[:3], marked[0].text[mark[1] : mark[2]]] for mark in marked[0].marks],
        roles=[named(text) for text in workbench.read_propbank(written(folder, ROLES, "roles.conllu"))],
        broken_roles=said(workbench.read_propbank(written(folder, f"{roles}\n{ROLES}", "cut.conllu"))),
        without_names=[said(workbench.read_propbank(nameless)), said(workbench.read_conllu_features(nameless))],
        broken=broken,
        no_utf8=said(workbench.read_conllu(latin)),
        limit=len(workbench.read_conllu(written(folder, f"{SENTENCE}\n" * 5, "five.conllu"), limit=2)),
        refused=[
            lambda: workbench.read_propbank(plain),
            *(
                lambda text=text: workbench.read_conllu(written(folder, text, "none.conllu"))
                for text in ("", "# only\n\n", "one two\n")
            ),
        ],
    )


JSON_LINES = """\
{"text": "a b", "pairs": [["r", 0, 1]]}
{"text": "a", "text_pair": "b", "words": [[0, 1, 1]], "pairs": []}
{
null
{"text": "a b"}
{"text": "a \\ud800", "pairs": []}
{"text": "a b", "pairs": [["r", 0]]}
{"text": "a b", "pairs": [["", 0, 1]]}
{"text": "a b", "pairs": [["r", 0, -1]]}

{"text": "c d", "pairs": [["r", 1, 0]]}
{"text": "e f", "pairs": [["r", 1, 0]]}
"""


def test_json_lines_hold_places_of_words(folder: Path, stored) -> None:
    texts = workbench.read_relation_texts(written(folder, "\ufeff" + JSON_LINES, "some.jsonl"), limit=3)
    (marked,) = workbench.read_feature_texts(written(folder, '{"text": "a b", "marks": [["f", 2, 3]]}\n', "marks.jsonl"))
    stored(
        texts=list(texts),
        said=said(texts),
        marks=marked,
        refused=[
            lambda: workbench.read_feature_texts(folder / "some.csv"),
            lambda: workbench.read_relation_texts(written(folder, b"\xff\n{\n", "some.jsonl")),
            lambda: workbench.read_relation_texts(written(folder, "\n \n", "some.jsonl")),
        ],
    )


def test_texts_and_requests(stored) -> None:
    other = bertscope.RelationText("a b", [("det", 0, 1)])
    texts = [bertscope.RelationText("a", []), CAT, bertscope.RelationText("b c", [("obj", 0, 1)]), CAT]
    asked, lazy = requests.asked_relation_texts(texts, ["nsubj"]), requests.asked_relation_texts(iter(texts), [])
    plain = [bertscope.FeatureText("a", [])]
    marks = bertscope.FeatureText("a b", [("f", 0, 1), ("g", 2, 3)])
    stored(
        words=[
            CAT.words,
            bertscope.RelationText(("a  b", " c"), [("r", 1, 0)]).words,
            bertscope.RelationText("The cat.", [], [(0, 3), (4, 7, 0)]).words,
        ],
        request=requests.with_relation_texts(ScoreRelationsRequest(), [CAT, other]),
        of_some_relations=requests.with_relation_texts(
            request_of(ScoreRelationsRequest, relations=["det", "other"]), [CAT, other]
        ),
        features=requests.with_feature_texts(request_of(ScoreFeaturesRequest, special_tokens=True), [marks]),
        without_a_pair=[asked.total, list(asked.items) == [CAT, CAT], list(asked.numbers or ())],
        lazily=[lazy.total, len([*lazy.items]), list(lazy.numbers or ())],
        without_a_mark=[requests.asked_feature_texts(plain, [], special_tokens=given).total for given in (True, False)],
        refused=[
            lambda: bertscope.RelationText(3, []),  # type: ignore[arg-type]
            lambda: bertscope.RelationText("a b", [("r", 0)]),  # type: ignore[list-item]
            lambda: bertscope.RelationText("a b", [(1, 0, 1)]),  # type: ignore[list-item]
            lambda: bertscope.RelationText("a b", [("r", 0, 1)], [(0,)]),  # type: ignore[list-item]
            lambda: bertscope.RelationText("a b", "rst"),  # type: ignore[arg-type]
            lambda: bertscope.FeatureText("a b", [("f", 0)]),  # type: ignore[list-item]
            lambda: requests.asked_relation_texts([CAT, "text"], []),  # type: ignore[list-item]
        ],
    )
