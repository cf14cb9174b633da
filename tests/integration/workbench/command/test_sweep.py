"""`bertscope classify`, `sweep`, `rank` and `prune` against a server on a socket."""

import json
import signal
import threading

import grpc
import pytest
from bertscope.questions.ablation.assembly import SweepAssembler
from bertscope.v1 import ablation_pb2
from bertscope_workbench.plots.theme import DARK
from google.rpc import code_pb2

from tests.support.fake_server import IMPORTANCE, difference_of
from tests.support.patience import granted


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.tsv"
    path.write_text("text\tanswer\nRome is in [MASK].\tItaly|Europe\nx [MASK]\ty\n")
    return path


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one\ntwo\nthree\n")
    return path


def test_sweep(command, server, prompts):
    code, out, err = command("sweep", "--prompts", prompts, "--model", "fake", "--top", 4)
    assert (code, err) == (0, "")
    assert "each head zeroed, 20 items, models/fake" in out
    assert "baseline: accuracy 0.5000, loss 2.0000 nats" in out
    assert "95 % interval" in out
    assert "4 helped, 1 hurt (by chance 0.3 each), 7 can't be told" in out
    rows = [line.split()[0] for line in out.splitlines() if ":" in line[:5]]
    assert rows == ["2:3", "2:2", "0:1", "0:0"]
    (request,) = server.requests
    assert request.model == "models/fake"
    assert [(prompt.text, list(prompt.answers)) for prompt in request.objective.cloze.prompts] == [
        ("Rome is in [MASK].", ["Italy", "Europe"]),
        ("x [MASK]", ["y"]),
    ]


def test_every_option_of_a_sweep(command, server, texts):
    code, _, err = command(
        *("sweep", "--texts", texts, "--limit", 2, "--seed", 3, "--mask-share", 0.5, "--truncate"),
        *("--mode", "scale", "--factor", 0.5, "--set", "1:0,2+2", "--set", "0:1"),
        *("--zero", "0:1", "--mean", "2", "--reference", texts),
        *("--greedy", "best-remaining", "--step", 2, "--max-removed", 2, "--metric", "loss"),
        *("--resamples", 200, "--confidence", 0.9, "--memory", "1MiB"),
    )
    assert (code, err) == (0, "")
    (request,) = server.requests
    objective = request.objective.masked_lm_loss
    assert (list(objective.texts), objective.seed, objective.mask_share) == (["one", "two"], 3, 0.5)
    assert request.objective.truncate
    assert (request.mode, request.scale, request.scope) == (4, 0.5, 0)
    assert [[(each.layer, list(each.heads)) for each in heads.layers] for heads in request.sets] == [
        [(1, [0, 2]), (2, [])],
        [(0, [1])],
    ]
    assert [(each.layer, each.mode) for each in request.interventions] == [(0, 1), (2, 3)]
    assert list(request.reference_texts) == ["one", "two", "three"]
    assert (request.greedy.order, request.greedy.step, request.greedy.max_removed, request.greedy.metric) == (3, 2, 2, 1)
    assert (request.bootstrap.resamples, request.bootstrap.seed, request.bootstrap.confidence) == (200, 3, 0.9)
    assert request.memory_bytes == 2**20


@pytest.mark.parametrize(
    ("option", "content", "kind"),
    [
        ("--pairs", "good\tbad\na\tb\n", "minimal_pairs"),
        ("--labelled", "text\tlabel\na\t1\n", "classification"),
        ("--words", "The\tO\ncat\tB-PER\n", "token_classification"),
        ("--rated", "text\tvalue\na\t1.5\n", "regression"),
        ("--label-sets", "text\tlabels\na\tx|y\nb\t|\n", "multi_label"),
        ("--divergence", "text\na\n", "divergence"),
        ("--texts", "text\na\n", "masked_lm_loss"),
    ],
)
def test_what_is_measured(command, server, tmp_path, option, content, kind):
    path = tmp_path / "items.tsv"
    path.write_text(content)
    code, out, err = command("sweep", option, path)
    assert (code, err) == (0, ""), out
    assert server.requests[0].objective.WhichOneof("kind") == kind


@pytest.mark.slow
def test_every_effect_goes_into_a_file_and_a_figure(command, prompts, tmp_path):
    table, figure = tmp_path / "effects.csv", tmp_path / "effects.svg"
    code, out, _ = command("sweep", "--prompts", prompts, "--output", table, "--plot", figure, "--dark")
    assert code == 0
    assert out.endswith(f"wrote {table}\nwrote {figure}\n")
    assert DARK.page in figure.read_text("utf-8")
    lines = table.read_text().splitlines()
    assert lines[0] == "layer,head,heads,metric,score,difference,low,high,mcnemar_p,interval_method,no_interval"
    assert lines[1].startswith("0,0,0:0,accuracy,0.49,-0.01,")
    assert len(lines) == 1 + 12 * 2
    assert figure.read_bytes().startswith(b"<?xml")


def test_effects_as_tsv_and_json_lines(command, prompts, tmp_path):
    tabs, lines = tmp_path / "e.tsv", tmp_path / "e.jsonl"
    assert command("sweep", "--prompts", prompts, "--set", "1:0,2+2:0", "--output", tabs)[0] == 0
    assert tabs.read_text().splitlines()[1].split("\t")[:4] == ["", "", "1:0,2+2:0", "accuracy"]
    assert command("sweep", "--prompts", prompts, "--greedy", "effect", "--output", lines, "--json")[0] == 0
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(rows) == 13 * 2
    assert (rows[2]["removed"], rows[2]["added"], rows[2]["metric"]) == (1, "0:0", "accuracy")


def test_a_metric_that_is_not_measured(command, prompts):
    code, out, err = command("sweep", "--prompts", prompts, "--metric", "divergence")
    assert (code, out) == (2, "")
    assert err.startswith("bertscope: --metric divergence: this sweep measures accuracy, loss")
    code, _, err = command("rank", "--prompts", prompts, "--ablation", "--metric", "spearman")
    assert (code, "--metric spearman: this file measures accuracy, loss" in err) == (2, True)


def test_a_bad_line_is_one_line(command, server, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("text\tanswer\nno tab\n")
    code, out, err = command("sweep", "--prompts", path)
    assert (code, out) == (1, "")
    assert err == (f"bertscope: {path}, line 2: has 1 columns where the first line names 2; put a tab between them\n")
    code, _, err = command("rank", "--texts", tmp_path / "nothing.txt")
    assert (code, err) == (1, f"bertscope: cannot read {tmp_path / 'nothing.txt'}: No such file or directory\n")
    assert server.requests == []


@pytest.mark.parametrize(
    "arguments", [["sweep"], ["rank"], ["prune", "--name", "n", "--least", "0.5"]], ids=lambda parts: parts[0]
)
def test_an_item_that_the_server_refuses_is_named_by_its_line(arguments, command, server, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("text\tanswer\nRome is in [MASK].\tItaly\n\nno mask\tx\n")

    def refuse(context):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "objective.cloze.prompts[1].text has no mask; write [MASK]")

    server.fail = refuse
    code, out, err = command(*arguments, "--prompts", path)
    assert (code, out) == (1, "")
    assert f"{path}, line 4 has no mask; write [MASK]" in err


def test_an_interrupted_sweep_ends_on_the_server(command, server, prompts, wait_for, tmp_path, monkeypatch):
    """And shows and keeps what came."""
    monkeypatch.chdir(tmp_path)
    second, add = threading.Event(), SweepAssembler.add

    def noting(assembler, message):
        effect = add(assembler, message)
        if len(assembler.effects) == 2:
            second.set()
        return effect

    monkeypatch.setattr(SweepAssembler, "add", noting)

    def interrupt(messages):
        for number, message in enumerate(messages):
            if number == 3:
                assert second.wait(granted(30))
                signal.raise_signal(signal.SIGINT)  # Python hands it to the main thread, which runs the command.
                wait_for.wait(granted(60))
            yield message

    server.stream = interrupt
    code, out, err = command("sweep", "--prompts", prompts)
    assert (code, err) == (130, "bertscope: interrupted\n")
    (kept,) = tmp_path.glob("sweep-*.partial.json")
    assert f"--resume {kept.name}" in out
    assert len(json.loads(kept.read_text())["effects"]) == 2
    assert server.ended.wait(granted(30))


def test_rank(command, server, prompts, tmp_path):
    figure = tmp_path / "rank.png"
    code, out, err = command("rank", "--prompts", prompts, "--zero", "1", "--plot", figure, "--dark")
    assert (code, err) == (0, "")
    (row,) = [line.split() for line in out.splitlines() if line.startswith("layer 1")]
    assert row == ["layer", "1", *(f"{value:.2f}".removeprefix("0") for value in IMPORTANCE[1])]
    assert "least important first: 0:3 0:2 0:1 0:0 1:3" in out
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert server.requests[0].interventions[0].layer == 1


def test_rank_by_ablation(command, server, prompts, tmp_path):
    figure = tmp_path / "rank.svg"
    code, out, err = command("rank", "--prompts", prompts, "--ablation", "--zero", "1", "--metric", "loss", "--plot", figure)
    assert (code, err) == (0, "")
    (sweep,) = server.requests
    assert (sweep.scope, sweep.interventions[0].layer) == (ablation_pb2.SweepHeadsRequest.SCOPE_EVERY_HEAD, 1)
    differences = {f"{layer}:{head}": difference_of(layer, head) for layer in range(3) for head in range(4)}
    assert "least important first, by loss: " in out
    assert figure.exists()
    code, out, _ = command("rank", "--prompts", prompts, "--ablation")
    first = out.splitlines()[-1].removeprefix("least important first, by accuracy: ").split()
    assert first == sorted(differences, key=lambda name: -differences[name])[:10]


def test_a_runtime_without_gradients_names_the_way_that_needs_none(command, server, prompts, abort):
    server.fail = abort(code_pb2.UNIMPLEMENTED, "models/fake has no gradients", reason="NO_GRADIENTS")
    code, out, err = command("rank", "--prompts", prompts)
    assert (code, out) == (1, "")
    assert err.startswith("bertscope: models/fake has no gradients; or add --ablation, which needs none")


def test_rank_layers_as_json(command, prompts):
    code, out, _ = command("rank", "--prompts", prompts, "--ablation", "--scope", "layers", "--json")
    document = json.loads(out)
    assert (code, document["scope"], document["metric"]) == (0, "layers", "accuracy")
    assert {entry["layer"] for entry in document["order"]} == {0, 1, 2}
    assert all(entry["head"] is None for entry in document["order"])


def test_prune_by_ablation(command, server, prompts):
    assert command("prune", "--least", 0.25, "--prompts", prompts, "--ablation", "--name", "small", "--json")[0] == 0
    _, prune = server.requests
    differences = {(layer, head): difference_of(layer, head) for layer in range(3) for head in range(4)}
    best = sorted(differences, key=lambda place: -differences[place])[:3]
    assert {(each.layer, head) for each in prune.heads for head in each.heads} == set(best)


def test_prune_the_least_important(command, server, prompts):
    code, out, _ = command("prune", "--least", 0.25, "--prompts", prompts, "--name", "small", "--model", "fake", "--json")
    assert code == 0
    assert json.loads(out)["pruned_heads"] == {"0": [1, 2, 3]}
    rank, prune = server.requests
    assert rank.model == prune.model == "models/fake"
    code, _, err = command("prune", "--least", 0.01, "--prompts", prompts, "--name", "small")
    assert (code, err) == (1, "bertscope: --least 0.01 is less than one head; say more\n")


def test_classify(command, server):
    code, out, err = command("classify", "good", "bad [bold]", "--zero", "1", "--truncate")
    assert (code, err) == (0, "")
    assert "bad [bold]" in out
    assert "positive" in out
    assert "0.7500" in out
    assert [each.text for each in server.requests[0].inputs] == ["good", "bad [bold]"]
    assert server.requests[0].truncate


def test_predict(command, server):
    code, out, err = command("predict", "good", "bad [bold]", "--zero", "1", "--truncate")
    assert (code, err) == (0, "")
    assert "4.0000  good" in out and "10.0000  bad [bold]" in out and "2 tokens cut away" in out
    assert server.requests[0].interventions[0].layer == 1
    assert "3.5000  good / x" in command("predict", "good", "--pair", "x")[1]
    (result,) = json.loads(command("predict", "good", "--json")[1])["results"]
    assert result["value"] == 4


def test_predict_ranks_candidates(command, server, texts):
    code, out, err = command("predict", "--query", "[q]", "a", "longer", "bb")
    assert (code, err) == (0, "")
    rows = [["1", "2.5000", "a"], ["2", "2.0000", "bb"], ["3", "0.0000", "longer"]]
    assert [line.split() for line in out.splitlines() if "000" in line] == rows
    assert "3 pairs cut" in out
    assert {asked.text for asked in server.requests[0].inputs} == {"[q]"}
    found = json.loads(command("predict", "--query", "q", "--texts", texts, "--json")[1])
    assert (found["query"], [one["index"] for one in found["results"]]) == ("q", [0, 1, 2])
    for wrong in (["--pair", "x"], ["--texts", texts, "--output", "x.csv"]):
        code, _, err = command("predict", "--query", "q", *(["a"] if wrong[0] == "--pair" else []), *wrong)
        assert code == 2 and "--query" in err


def test_tag(command, server):
    code, out, err = command("tag", "Paris [bold]", "--zero", "1", "--truncate")
    assert (code, err) == (0, "")
    assert [line.split()[:4] for line in out.splitlines() if "LOC" in line] == [["LOC", "Paris", "[bold]", "0-12"]]
    assert "2 tokens cut away" in out
    assert server.requests[0].truncate
    assert server.requests[0].interventions[0].layer == 1
    assert out != (labels := command("tag", "Paris", "--top-k", "2")[1])
    assert labels.count("B-LOC") == 2
    (result,) = json.loads(command("tag", "Paris", "--json")[1])["results"]
    assert (result["mentions"][0]["text"], result["words"][0]["labels"][0]["label"]) == ("Paris", "B-LOC")


def test_tag_writes_rows(command, server, texts, tmp_path):
    output = tmp_path / "tags.jsonl"
    assert command("tag", "--texts", texts, "--output", output) == (0, f"wrote {output}: 3 rows\n", "")
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["words"], row["labels"], row["types"]) for row in rows] == [
        ([text], ["B-LOC"], ["LOC"]) for text in ("one", "two", "three")
    ]


def test_models_show_labels_and_pruned_heads(command, server):
    server.models["models/fake"] = {"labels": ["no", "yes"], "pruned_heads": {1: [0, 2]}}
    code, out, _ = command("models", "show", "fake")
    assert code == 0
    assert "0 no, 1 yes" in out
    assert "2 of 12 (1:0,2)" in out
    _, out, _ = command("models", "list")
    assert "models/fake says no, yes" in out
    assert "models/fake lacks heads: 2 of 12 (1:0,2)" in out
    _, out, _ = command("models", "show", "--json")
    assert (json.loads(out)["labels"], json.loads(out)["pruned_heads"]) == (["no", "yes"], {"1": [0, 2]})
