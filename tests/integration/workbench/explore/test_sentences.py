"""The questions of the Sentences view: what its files hold, and numbers that are the client's."""

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest

from tests.support.page import Page

TEXTS = ["The cat sat on the mat.", "the of [MASK] in [MASK]"]
BROKEN_TREEBANK = "# text = The cat\n1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n1\tx\n\n"


@pytest.fixture(scope="module")
def lab_page(lab):
    with Page(lab.target) as running:
        yield running


def read(lab_page, contents, **fields):
    (event,) = lab_page.ask("table", {"contents": contents, **fields})
    return event


@pytest.mark.parametrize(
    ("suffix", "contents"),
    [
        (".tsv", "text\ttext_pair\tanswer\tlabel\tkind\tn\tid\na [MASK]\tb\tx|y\t1\tc\t-2.5\t007\nd\n"),
        (".csv", "text,text_pair,answer,label,kind,n,id\na [MASK],b,x|y,1,c,-2.5,007\n,b,x,1,c,1,2\n"),
        (
            ".jsonl",
            (
                '{"text": "a [MASK]", "text_pair": "b", "answer": ["x", "y"], "label": 1, '
                '"kind": "c", "n": -2.5, "id": "007"}\n{"text": 1}\n'
            ),
        ),
    ],
)
def test_tables_are_read(lab_page, suffix, contents):
    found = read(lab_page, contents, suffix=suffix)
    line = 1 if suffix == ".jsonl" else 2
    row = {"line": line, "text": "a [MASK]", "text_pair": "b", "answers": ["x", "y"], "label": "1"}
    row["more"] = {"kind": "c", "n": -2.5, "id": "007"}
    assert (found["rows"], found["cut"]) == ([row], False)
    (left_out,) = found["left_out"]
    assert left_out.startswith(f"line {line + 1}: ")


def test_sentences_treebanks_and_other_names_of_columns_are_read(lab_page):
    assert read(lab_page, "a\n\nb\n")["rows"] == [{"line": 1, "text": "a"}, {"line": 3, "text": "b"}]
    found = read(lab_page, BROKEN_TREEBANK, suffix=".conllu")
    assert found["rows"] == [{"line": 2, "text": "The cat"}]
    assert len(found["left_out"]) == 1
    found = read(lab_page, "sentence\tlabel\na\tgood\n", suffix=".tsv", columns={"text": "sentence"})
    assert found["rows"] == [{"line": 2, "text": "a", "label": "good"}]
    found = read(lab_page, "a\n" * 1001)
    assert (len(found["rows"]), found["cut"]) == (1000, True)


def test_the_numbers_are_the_clients(lab_page, lab):
    asked = [
        {"text": TEXTS[0]},
        {"text": TEXTS[1], "answers": ["in", "of"]},
        {"text": TEXTS[0], "text_pair": TEXTS[1], "answers": ["cat"]},
        {"text": "the " * 600},
    ]
    found = {event["row"]: event for event in lab_page.ask("rows", {"rows": asked, "model": "bert"})}
    assert "token" in found[3]["left_out"]
    with bertscope.Client(lab.target) as client:
        scores = client.score_texts([TEXTS[0], TEXTS[1], (TEXTS[0], TEXTS[1])], model="bert")
        top = client.fill_mask(TEXTS[1], model="bert", top_k=3)[0].masks[0].predictions
        golds = client.fill_mask(TEXTS[1], model="bert", candidates=["in", "of"])[0].masks[0].predictions
        pair = client.fill_mask(TEXTS[0], text_pairs=TEXTS[1], model="bert", candidates=["cat"])[0].masks[0].predictions
    for index, score in enumerate(scores):
        expected = (score.tokens, score.scored_pieces, pytest.approx(score.log_likelihood / score.scored_pieces, abs=1e-4))
        assert (found[index]["tokens"], found[index]["pieces"], found[index]["score"]) == expected
    assert "loss" not in found[0]
    assert "predictions" not in found[0]
    assert found[1]["predictions"] == [[one.token, pytest.approx(one.probability, rel=1e-4)] for one in top]
    assert found[1]["loss"] == pytest.approx(-max(one.log_probability for one in golds), abs=1e-4)
    assert found[1]["right"] == (top[0].token in ("in", "of"))
    assert found[2]["loss"] == pytest.approx(-pair[0].log_probability, abs=1e-4)
    assert "1 to 2000" in lab_page.refusal("rows", {"rows": [{"text": "a"}] * 2001})["message"]


def test_what_heads_do_is_what_the_client_says(lab_page, lab):
    pair = (TEXTS[0], TEXTS[1])
    asked = [{"text": TEXTS[0]}, {"text": TEXTS[1]}, {"text": pair[0], "text_pair": pair[1]}]
    found = {event["row"]: event for event in lab_page.ask("rows", {"rows": asked, "model": "bert"})}
    (described,) = lab_page.ask("describe", {"texts": TEXTS, "model": "bert"})
    with bertscope.Client(lab.target) as client:
        for index, texts in enumerate(([TEXTS[0]], [TEXTS[1]], [pair])):
            expected = client.describe_attention(texts, model="bert")
            assert found[index]["patterns"] == expected.majority().tolist()
            assert [*found[index]["statistics"]] == [*expected.statistics]
            for name, values in found[index]["statistics"].items():
                assert np.array(values) == pytest.approx(expected.mean(name), abs=1e-4)
        whole = client.describe_attention(TEXTS, model="bert")
    assert "other_text" in found[2]["statistics"]
    assert described["patterns"] == whole.majority().tolist()
    assert np.array(described["statistics"]["previous"]) == pytest.approx(whole.mean("previous"), abs=1e-4)
    assert lab_page.refusal("describe", {"texts": []})["fields"] == ["texts"]
    (headless,) = lab_page.ask("rows", {"rows": [{"text": TEXTS[1]}], "model": "headless"})
    assert "predictions" not in headless and headless["patterns"]


def test_labels(lab_page, lab):
    with bertscope.Client(lab.target) as client:
        (expected,) = client.classify([TEXTS[0]], model="sorter")
        names = client.get_model("sorter").labels
    golds = [names[1], "1", "nothing"]
    found = {
        event["row"]: event
        for event in lab_page.ask("rows", {"rows": [{"text": TEXTS[0], "label": gold} for gold in golds], "model": "sorter"})
    }
    for event in found.values():
        assert event["predictions"] == [[one.label, pytest.approx(one.probability, rel=1e-4)] for one in expected.labels]
    probability = next(one.probability for one in expected.labels if one.index == 1)
    for index in (0, 1):
        assert found[index]["loss"] == pytest.approx(-np.log(probability), rel=1e-4)
        assert found[index]["right"] == (expected.label == names[1])
    assert "loss" not in found[2]
    (event,) = lab_page.ask("rows", {"rows": [{"text": TEXTS[0], "label": "0"}], "model": "topics"})
    assert len(event["predictions"]) == 3
    assert "loss" not in event  # Each label is right or wrong on its own.


RIGHT = ["the cat sleeps .", "the cats sleep .", "[MASK] is here ."] + ["a dog eats ."] * 20
WRONG = ["the cat sleep .", "the cats sleeps .", "a " * 600] + ["a dog eat ."] * 20
TREE_ROWS = [
    "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_",
    "2\tcat\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_",
    "3\tsleeps\t_\tVERB\t_\t_\t0\troot\t_\t_",
]
TREEBANK = ("\n".join(TREE_ROWS) + "\n\n") * 12 + "1\tbroken\n\n"


def test_pairs(page, host):
    events = page.ask("pairs", {"right": RIGHT, "wrong": WRONG, "model": "bert"})
    (left_out,) = [event for event in events if "left_out" in event]
    assert left_out["pair"] == 2
    kept = [index for index in range(len(RIGHT)) if index != 2]
    with bertscope.Client(host.target) as client:
        expected = client.compare_texts([(RIGHT[index], WRONG[index]) for index in kept], model="bert")
    rows = {event["pair"]: event for event in events if "scores" in event}
    assert list(rows) == kept
    for index, one in zip(kept, expected.sets, strict=True):
        assert rows[index]["scores"] == pytest.approx(one.log_likelihoods, abs=1e-3)
        assert rows[index]["outcome"] == one.outcome
    whole, (*_, last) = expected.accuracy(), [event["accuracy"] for event in events if "accuracy" in event]
    assert (last["sets"], last["right"], last["accuracy"]) == (whole.sets, whole.right, pytest.approx(whole.accuracy))
    assert last["interval"] == pytest.approx(list(whole.interval))


def test_relations(page, host, tmp_path):
    *_, last = page.ask("relations", {"conllu": TREEBANK, "model": "bert"})
    (tmp_path / "treebank.conllu").write_text(TREEBANK)
    texts = workbench.read_conllu(tmp_path / "treebank.conllu")
    with bertscope.Client(host.target) as client:
        expected = client.score_relations(texts, model="bert")
    assert (last["texts"], last["left_out"]) == (12, 1)
    assert {one["relation"] for one in last["relations"]} == {"det", "nsubj"}
    for one in last["relations"]:
        best = expected[one["relation"]].best()
        assert (one["layer"], one["head"], one["direction"], one["pairs"]) == (best.layer, best.head, best.direction, 6)
        assert one["accuracy"] == pytest.approx(best.accuracy)
        assert one["accuracies"] == pytest.approx(expected[one["relation"]].accuracy(best.direction).round(4))
