"""Every field of every question with values of other types and sizes: an answer or a typed error, never a bug."""

import json
import re
from pathlib import Path

import pytest

TEXT = "Paris is the capital of [MASK]."
TREEBANK = "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
CHANGE = {"layer": 0, "heads": [0], "mode": "scale", "factor": 0.5}
ROW = {"text": TEXT, "text_pair": "the", "answers": ["the"], "label": "0"}
DETAIL = {"layer": 0, "head": 0, "rows": [0, 3], "columns": [0, 3]}
GOOD: dict[str, dict[str, object]] = {
    "inspect": {
        "text": TEXT,
        "model": "bert",
        "top_k": 2,
        "follow": ["the"],
        "changes": [CHANGE],
        "detail": [DETAIL],
        "words": True,
    },
    "worth": {"texts": [TEXT], "model": "bert", "mode": "scale", "factor": 0.5, "changes": [], "reference_texts": ["a"]},
    "attribute": {
        "text": TEXT,
        "model": "bert",
        "answer": "the",
        "other": "of",
        "mask": 0,
        "changes": [CHANGE],
        "reference_texts": [],
    },
    "compare": {"text": TEXT, "model": "bert", "other": "bert", "changes": [CHANGE], "top_k": 2, "detail": [DETAIL]},
    "lens": {"text": TEXT, "model": "bert", "normalisation": "none", "answer": "the", "first": 0},
    "trace": {
        "text": TEXT,
        "other": "London is the capital of [MASK].",
        "model": "bert",
        "answer": "the",
        "against": "of",
        "site": "state",
        "direction": "break",
    },
    "patched": {"text": TEXT, "source": TEXT, "model": "bert", "site": "state", "layer": 0, "position": 1},
    "corpus": {"contents": TEXT, "suffix": ".txt"},
    "find": {"texts": [TEXT], "model": "bert", "unit": "state:0", "only": ["is"], "like": TEXT, "word": "Paris", "tags": []},
    "directions": {"data": "QUJD"},
    "find_outstanding": {"texts": [TEXT], "model": "bert", "layer": 0, "codes": False, "data": ""},
    "find_means": {"texts": [TEXT], "model": "bert"},
    "describe": {"texts": [TEXT], "model": "bert"},
    "pairs": {"right": [TEXT], "wrong": ["Paris was the capital."], "model": "bert"},
    "relations": {"conllu": TREEBANK, "model": "bert"},
    "table": {"contents": "text\na\n", "suffix": ".tsv", "columns": {"text": "text"}},
    "rows": {"rows": [ROW], "model": "bert"},
    "models": {"role": True},
    "load": {"source": "/nowhere", "model_id": "x", "replace": False},
    "unload": {"model": "nothing"},
    "compress": {"model": "nothing", "model_id": "x", "steps": [{"step": "layers", "layers": [0]}]},
}
WRONG = [None, True, -1, 10**30, "\ud800", "x" * 5000, [[]], {}, [{"layer": 10**12, "head": -1}]]


def wrong_bodies(question):
    good = GOOD[question]
    for name in good:
        for value in WRONG:
            yield good | {name: value}
        yield {each: value for each, value in good.items() if each != name}
    for name in ("changes", "detail", "steps", "rows"):
        for part in good.get(name, []):
            for key in part:
                for value in WRONG:
                    yield good | {name: [part | {key: value}]}


@pytest.mark.parametrize("question", GOOD)
def test_wrong_fields(page, caplog, question):
    for body in wrong_bodies(question):
        reply = page.open(question, body)
        events = [json.loads(line) for line in reply.read().decode().splitlines()]
        assert events, body
        status = events[-1].get("error", {}).get("status")
        assert status not in ("INTERNAL", "UNKNOWN"), (body, events[-1])
    assert not caplog.records


WRONG_BODIES = Path(__file__).with_name("wrong_bodies.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", WRONG_BODIES)
def test_wrong_bodies_say_what_is_wrong(page, line):
    """A line has a question, its body, and what the refusal says; it names no file of this machine."""
    question, body, part = re.fullmatch(r"(\w+) (\{.*\}|\{) ([^{}]+)", line).groups()
    message = page.refusal(question, body.encode())["message"]
    assert part in message
    assert "/tmp" not in message
