"""`bertscope classify`, `sweep`, `rank` and `prune` against a server on a socket."""

import dataclasses
import json
import shlex
import signal
import threading
from pathlib import Path

import grpc
import pytest
from bertscope import SweepTable
from bertscope.questions.ablation.assembly import SweepAssembler
from bertscope_workbench.command.views.sweep_files import document, read_partial, write_partial
from bertscope_workbench.plots.theme import DARK
from google.rpc import code_pb2

from tests.support.patience import granted
from tests.support.swept_tables import table_of


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


def test_sweep(command, server, prompts, texts, stored):
    code, out, err = command("sweep", "--prompts", prompts, "--model", "fake", "--top", 4)
    assert (code, err) == (0, "")
    assert command(
        *("sweep", "--texts", texts, "--limit", 2, "--seed", 3, "--mask-share", 0.5, "--truncate"),
        *("--mode", "scale", "--factor", 0.5, "--set", "1:0,2+2", "--set", "0:1"),
        *("--zero", "0:1", "--mean", "2", "--reference", texts),
        *("--greedy", "best-remaining", "--step", 2, "--max-removed", 2, "--metric", "loss"),
        *("--resamples", 200, "--confidence", 0.9, "--memory", "1MiB"),
    )[::2] == (0, "")
    stored(printed=out, requests=server.requests)


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


def test_every_effect_goes_into_a_file_and_a_figure(command, prompts, tmp_path, stored):
    table, figure, tabs, lines = (tmp_path / f"effects.{suffix}" for suffix in ("csv", "svg", "tsv", "jsonl"))
    code, out, _ = command("sweep", "--prompts", prompts, "--output", table, "--plot", figure, "--dark")
    assert code == 0
    assert out.endswith(f"wrote {table}\nwrote {figure}\n")
    assert DARK.page in figure.read_text("utf-8")
    assert command("sweep", "--prompts", prompts, "--set", "1:0,2+2:0", "--output", tabs)[0] == 0
    assert command("sweep", "--prompts", prompts, "--greedy", "effect", "--output", lines, "--json")[0] == 0
    stored(heads=table.read_text(), sets=tabs.read_text(), curve=lines.read_text())


def test_a_metric_that_is_not_measured(command, prompts):
    code, out, err = command("sweep", "--prompts", prompts, "--metric", "divergence")
    assert (code, out) == (2, "")
    assert err.startswith("bertscope: --metric divergence: this sweep measures accuracy, loss")
    code, _, err = command("rank", "--prompts", prompts, "--ablation", "--metric", "spearman")
    assert (code, "--metric spearman: this file measures accuracy, loss" in err) == (2, True)


@pytest.mark.parametrize(
    "arguments", [["sweep"], ["rank"], ["prune", "least", "0.5", "--name", "n"]], ids=lambda parts: parts[0]
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


def test_the_table_of_a_sweep_that_was_cut_short_is_resumed_too(tmp_path):
    """By the file that is written beside it."""
    cut = dataclasses.replace(table_of({(0, 1): 0.5}), interrupted="interrupted")
    (table, beside), rest = write_partial(cut, tmp_path / "effects.csv")
    assert (table.suffix, rest) == (".csv", beside)
    for given in (table, beside, tmp_path / "effects.csv"):
        assert document(read_partial(given, SweepTable)) == document(cut)


def test_rank(command, server, prompts, stored):
    asked = ("rank", "--prompts", prompts, "--zero", "1", "--plot")
    by_gradients = command(*asked, "rank.png", "--dark")
    by_loss = command(*asked, "rank.svg", "--ablation", "--metric", "loss")
    by_accuracy = command("rank", "--prompts", prompts, "--ablation")
    layers = command("rank", "--prompts", prompts, "--ablation", "--scope", "layers", "--json")
    assert Path("rank.png").read_bytes().startswith(b"\x89PNG") and Path("rank.svg").exists()
    stored(
        by_gradients=by_gradients[1],
        by_loss=by_loss[1],
        by_accuracy=by_accuracy[1],
        layers=json.loads(layers[1])["order"],
        codes_and_errors=[each[::2] for each in (by_gradients, by_loss, by_accuracy, layers)],
        requests=server.requests,
    )


def test_a_runtime_without_gradients_names_the_way_that_needs_none(command, server, prompts, abort):
    server.fail = abort(code_pb2.UNIMPLEMENTED, "models/fake has no gradients", reason="NO_GRADIENTS")
    code, out, err = command("rank", "--prompts", prompts)
    assert (code, out) == (1, "")
    assert err.startswith("bertscope: models/fake has no gradients; or add --ablation, which needs none")


def test_prune_the_least_important(command, server, prompts):
    code, out, _ = command("prune", "least", 0.25, "--prompts", prompts, "--name", "small", "--model", "fake", "--json")
    assert code == 0
    assert json.loads(out)["pruned_heads"] == {"0": [1, 2, 3]}
    rank, prune = server.requests
    assert rank.model == prune.model == "models/fake"
    code, _, err = command("prune", "least", 0.01, "--prompts", prompts, "--name", "small")
    assert (code, err) == (1, "bertscope: a share of 0.01 is less than one head; say more\n")


LABELLING = """\
classify good 'bad [bold]' --zero 1 --truncate
predict good 'bad [bold]' --zero 1 --truncate
predict good --pair x
predict good --json
predict --query '[q]' a longer bb
predict --query q --texts texts.txt --json
predict --query q a --pair x
predict --query q --texts texts.txt --output x.csv
tag 'Paris [bold]' --zero 1 --truncate
tag Paris --top-k 2
tag Paris --json
"""


@pytest.mark.usefixtures("texts")
def test_labels_values_and_tags(command, server, stored):
    found = {line: command(*shlex.split(line)) for line in LABELLING.splitlines()}
    assert [line for line, (code, *_) in found.items() if code] == LABELLING.splitlines()[6:8]
    stored(
        printed="".join(f"$ {line}\n{out}{err}\n" for line, (_, out, err) in found.items() if "--json" not in line),
        documents={line: json.loads(out) for line, (_, out, _) in found.items() if "--json" in line},
        requests=server.requests,
    )


def test_models_show_labels_and_pruned_heads(command, server, stored):
    server.models["models/fake"] = {"labels": ["no", "yes"], "pruned_heads": {1: [0, 2]}}
    listed, shown = command("models", "list"), command("models", "show", "fake")
    assert (listed[::2], shown[::2]) == ((0, ""), (0, ""))
    stored(listed=listed[1], shown=shown[1], document=json.loads(command("models", "show", "--json")[1]))
