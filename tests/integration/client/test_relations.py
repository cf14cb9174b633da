"""`score_relations`, `score_features` and `bertscope relations`, from a file to a table."""

import json
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import grpc
import numpy as np
import pytest

from tests.support.fake_server import FakeServer
from tests.support.harness import Host

TREEBANK = """\
# text = The cat sat.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tsat\tsit\tVERB\tVBD\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

# text = Yes
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_

# text = Broken
1\tBroken

# text = A dog barked loudly.
1\tA\ta\tDET\tDT\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tbarked\tbark\tVERB\tVBD\t_\t0\troot\t_\t_
4\tloudly\tloudly\tADV\tRB\t_\t3\tadvmod\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

"""


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    path = tmp_path / "some.conllu"
    path.write_text(TREEBANK, encoding="utf-8")
    return path


def test_the_command_names_what_the_server_rejects_in_the_words_of_the_file(run_at: Any, host: Host, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    good = '{"text": "a b", "pairs": [["r", 0, 1]], "marks": [["f", 0, 1]]}'
    bad = '{"text": "a b", "pairs": [["r", 0, 7]], "marks": [["f", 1, 1]]}'
    path.write_text(f"{good}\n{bad}\n{{\n", encoding="utf-8")
    for mode, problem in (("heads", "pairs[0].target is 7"), ("features", "marks[0] goes from 1 to 1")):
        code, out, _ = run_at(host.target, "relations", mode, str(path), "--model", "bert")
        assert code == 0
        assert "left out: 2 texts" in out
        assert f"some.jsonl, line 2: {problem}" in out
        assert "some.jsonl, line 3: is not JSON" in out


def test_an_error_of_the_caller_is_not_taken_for_one_of_the_texts(run_at: Any, host: Host, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    good, bad = '{"text": "a b", "pairs": [["r", 0, 1]]}', '{"text": "a b", "pairs": [["r", 0, 7]]}'
    path.write_text(f"{good}\n{{\n", encoding="utf-8")
    for name in ("", "other"):
        code, _, err = run_at(host.target, "relations", str(path), "--model", "bert", "--only", name)
        assert code == 1
        assert "no text has a pair" in err
    path.write_text(f'{{\n{bad}\n{{"text": "a", "pairs": []}}\n', encoding="utf-8")
    code, _, err = run_at(host.target, "relations", str(path), "--model", "bert")
    assert code == 1
    assert "every text was left out" in err
    assert "line 2: pairs[0].target is 7" in err


@pytest.mark.parametrize("given", [list, iter])
def test_texts_without_any_pair_are_an_error(server: FakeServer, given: Any) -> None:
    with bertscope.Client(server.target) as client:
        with pytest.raises(bertscope.InvalidArgument, match="no text has a pair"):
            client.score_relations(given([bertscope.RelationText("a", [])] * 3))
        with pytest.raises(bertscope.InvalidArgument, match="no text has a marked part"):
            client.score_features(given([bertscope.FeatureText("a", [])]), special_tokens=False)
        with pytest.raises(bertscope.InvalidArgument, match="relations"):
            client.score_relations([], [])
    assert server.requests == []


ASKED = """\
relations some.conllu --top 3
relations some.conllu --json
relations features some.conllu --json
relations places.jsonl
relations features places.jsonl
"""


@pytest.mark.usefixtures("treebank")
def test_the_command_prints_the_best_head_of_each_relation(command: Any, server: FakeServer, tmp_path: Path, stored) -> None:
    line = '{"text": "a b", "pairs": [["r", 0, 1]], "marks": [["f", 0, 1]]}\n'
    (tmp_path / "places.jsonl").write_text(line, encoding="utf-8")
    found = {line: command(*line.split()) for line in ASKED.splitlines()}
    assert all(code == 0 for code, *_ in found.values())
    stored(
        printed="".join(f"$ {line}\n{out}{err}\n" for line, (_, out, err) in found.items() if "--json" not in line),
        documents={line: json.loads(out) for line, (_, out, _) in found.items() if "--json" in line},
        requests=server.requests,
    )


def test_the_command_scores_trees(run_at: Any, host: Host, treebank: Path, tmp_path: Path) -> None:
    table = tmp_path / "trees.csv"
    arguments = ("relations", "trees", str(treebank), "--model", "bert")
    code, out, _ = run_at(host.target, *arguments, "--output", str(table))
    assert code == 0
    # Of 7 words, the governor of four is the word after, and of two the word before.
    assert "each word depends on the one before: 28.6 %, on the one after: 57.1 %" in out
    assert "texts whose links are no tree: 1" in out
    with bertscope.Client(host.target) as client:
        found = workbench.score_trees(client, workbench.read_conllu(treebank), model="bert", by_head=True)
    assert table.read_text(encoding="utf-8").startswith("layer,head,texts,words,directed")
    code, out, _ = run_at(host.target, *arguments, "--by-head", "--json")
    assert code == 0
    np.testing.assert_allclose(json.loads(out)["directed"], found.directed_score())
    code, out, _ = run_at(host.target, *arguments, "--by-head")
    assert "best head" in out


def test_other_texts_choose_the_heads(run_at: Any, host: Host, treebank: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.conllu"
    other.write_text(treebank.read_text(encoding="utf-8").split("\n\n")[0] + "\n\n", encoding="utf-8")
    arguments = ("relations", str(treebank), "--model", "bert", "--select", str(other))
    code, out, _ = run_at(host.target, *arguments, "--plot", str(tmp_path / "best.png"))
    assert (code, "chosen on other texts, scored on these" in " ".join(out.split())) == (0, True)
    code, out, _ = run_at(host.target, *arguments, "--json")
    with bertscope.Client(host.target) as client:
        found, chosen = (client.score_relations(workbench.read_conllu(path), model="bert") for path in (treebank, other))
    best = {one.relation: one for one in found.best_heads(select=chosen)}
    assert best["nsubj"].chosen_on == "other"
    for one in json.loads(out)["relations"]:
        expected = best[one["relation"]]
        assert (one["best"]["layer"], one["best"]["head"]) == (expected.layer, expected.head)
        assert (one["best"]["accuracy"], one["best"]["chosen_on"]) == (pytest.approx(expected.accuracy), expected.chosen_on)


def test_an_untrained_model_is_a_control(run_at: Any, host: Host, treebank: Path) -> None:
    arguments = ("relations", str(treebank), "--model", "bert", "--control", "untrained")
    code, out, _ = run_at(host.target, *arguments)
    assert (code, "untrained" in out.split("nsubj")[0]) == (0, True)
    code, out, _ = run_at(host.target, *arguments, "--json")
    texts = workbench.read_conllu(treebank)
    with bertscope.Client(host.target) as client:
        assert not [model.name for model in client.list_models() if "untrained" in model.name]
        try:
            made = client.compress_model("random", bertscope.untrained(), model="bert")
            expected = {one.relation: one for one in client.score_relations(texts, model=made).best_heads()}
        finally:
            client.unload_model("random")
    for one in json.loads(out)["relations"]:
        found, control = expected[one["relation"]], one["control"]
        assert (control["layer"], control["head"]) == (found.layer, found.head)
        assert control["accuracy"] == pytest.approx(found.accuracy)


def test_what_was_scored_before_an_error_is_shown_and_written(run_at: Any, server: FakeServer, tmp_path: Path) -> None:
    lines = [f'{{"text": "a b {index}", "pairs": [["r", 0, 1]]}}\n' for index in range(300)]
    path, table = tmp_path / "some.jsonl", tmp_path / "scores.csv"
    path.write_text("".join(lines), encoding="utf-8")

    def judge(request: Any, context: Any) -> None:
        if any(text.input.text == "a b 299" for text in request.texts):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full")

    server.judge = judge
    code, out, err = run_at(server.target, "relations", str(path), "--output", str(table))
    assert code != 0
    assert "the queue is full" in err
    answered = int(err.split("of the first ")[1].split()[0])
    assert 0 < answered < 300
    assert f"{answered} texts, 3 x 4 heads" in out
    assert not table.exists()
    assert "relation" in (tmp_path / "scores.partial.csv").read_text(encoding="utf-8")
    assert f"numbers are of the first {answered} of 300 texts" in " ".join(err.split())
