"""Pairs and relations on the page have the client's numbers."""

import bertscope
import bertscope_workbench as workbench
import pytest

RIGHT = ["the cat sleeps .", "the cats sleep .", "[MASK] is here ."] + ["a dog eats ."] * 20
WRONG = ["the cat sleep .", "the cats sleeps .", "a " * 600] + ["a dog eat ."] * 20
ROWS = [
    "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_",
    "2\tcat\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_",
    "3\tsleeps\t_\tVERB\t_\t_\t0\troot\t_\t_",
]
TREEBANK = ("\n".join(ROWS) + "\n\n") * 12 + "1\tbroken\n\n"


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
