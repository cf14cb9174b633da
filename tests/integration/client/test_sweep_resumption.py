"""Sweeps that are cut short keep what they have, and go on from it: in Python and by command."""

import csv
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import bertscope
import grpc
import pytest
from bertscope.v1 import common_pb2
from bertscope_workbench.command.app import run

from tests.support.fake_server import PROVENANCE

PROMPTS = bertscope.ClozePrompts([("a [MASK]", "b"), ("c [MASK]", "d")])
Stream = Callable[[Iterator[Any]], Iterator[Any]]


def breaking_after(effects: int) -> Stream:
    """A server that goes after so many."""

    def stream(messages: Iterator[Any]) -> Iterator[Any]:
        yield from itertools.islice(messages, effects + 1)
        raise RuntimeError("gone")

    return stream


def cut_after(server: Any, effects: int, **arguments: Any) -> bertscope.SweepTable:
    server.stream = breaking_after(effects)
    with bertscope.Client(server.target) as client:
        running = client.sweep_heads(PROMPTS, **arguments)
        with pytest.raises(bertscope.BertscopeError):
            running.table()
        table = running.partial()
    server.stream = lambda messages: messages
    return table


@pytest.mark.parametrize("effects", [0, 5, 12])
@pytest.mark.parametrize(
    "arguments", [{}, {"scope": "layers"}, {"sets": [{0: [1, 2]}, {2: 0}]}, {"greedy": bertscope.Greedy()}]
)
def test_the_rest_makes_it_whole(server, tmp_path, effects, arguments):
    with bertscope.Client(server.target) as client:
        whole = client.sweep_heads(PROMPTS, **arguments).table()
        cut = cut_after(server, min(effects, whole.count), **arguments)
        cut.save(tmp_path / "cut.json")
        assert bertscope.SweepTable.load(tmp_path / "cut.json") == cut
        for start_from in (cut, tmp_path / "cut.json", str(tmp_path / "cut.json")):
            sweep = client.sweep_heads(PROMPTS, start_from=start_from, **arguments)
            rest = list(sweep)
            table = sweep.table()
            assert (table.effects, table.points, table.start) == (whole.effects, whole.points, whole.start)
            assert (table.complete, table.asked, table.confidence) == (True, whole.asked, whole.confidence)
            if not arguments.get("greedy"):
                assert [each.heads for each in rest] == [each.heads for each in whole.effects[cut.count :]]
                assert [dict_of(entry) for entry in server.requests[-1].done] == [dict(each.heads) for each in cut.effects]


def dict_of(heads: Any) -> dict[int, tuple[int, ...]]:
    return {each.layer: tuple(each.heads) for each in heads.layers}


@pytest.mark.asyncio
async def test_the_same_for_asyncio(server):
    cut = cut_after(server, 5)
    async with bertscope.AsyncClient(server.target) as client:
        whole = await client.sweep_heads(PROMPTS).table()
        table = await client.sweep_heads(PROMPTS, start_from=cut).table()
        assert table.effects == whole.effects
        async with client.sweep_heads(PROMPTS) as sweep:
            await anext(sweep)
        assert sweep.partial().effects == whole.effects[:1]
        assert sweep.partial("I had enough").interrupted == "I had enough"


def test_of_a_whole_sweep_the_part_is_the_whole(server):
    with bertscope.Client(server.target) as client:
        sweep = client.sweep_heads(PROMPTS)
        table = sweep.table()
        assert sweep.partial() is table
        assert client.sweep_heads(PROMPTS, start_from=table).table().effects == table.effects


def test_nothing_came(server):
    server.fail = lambda context: context.abort(grpc.StatusCode.UNAVAILABLE, "nobody is here")
    with bertscope.Client(server.target, retries=1) as client:
        sweep = client.sweep_heads(PROMPTS)
        with pytest.raises(bertscope.Unavailable):
            sweep.table()
        with pytest.raises(bertscope.Unavailable):
            sweep.partial()


OTHER_PROMPTS = bertscope.ClozePrompts([("a [MASK]", "b"), ("c [MASK]", "e")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "arguments", "said"),
    [
        (PROMPTS, {"seed": 1}, "seed 0, and this sweep is asked with seed 1"),
        (PROMPTS, {"mode": "uniform"}, "mode zero, and this sweep is asked with mode uniform"),
        (PROMPTS, {"mode": "scale", "factor": 2.0}, "mode zero"),
        (PROMPTS, {"confidence": 0.9}, r"confidence 0\.95, and this sweep is asked with confidence 0\.9"),
        (PROMPTS, {"resamples": 200}, "resamples 1000, and this sweep is asked with resamples 200"),
        (PROMPTS, {"scope": "layers"}, "scope heads, and this sweep is asked with scope layers"),
        (PROMPTS, {"sets": [{0: 0}]}, "scope heads, and this sweep is asked with scope sets"),
        (PROMPTS, {"interventions": bertscope.zero(1)}, r"interventions \[\]"),
        (PROMPTS, {"greedy": bertscope.Greedy()}, "greedy null"),
        (OTHER_PROMPTS, {}, "items 2, sha256:.* asked with items 2, sha256:"),
        (replace(PROMPTS, truncate=True), {}, "options of the objective"),
        (replace(PROMPTS, skip_multi_piece=True), {}, "options of the objective"),
        (bertscope.Divergence(["a [MASK]"]), {}, "objective cloze, and this sweep is asked with objective divergence"),
    ],
)
def test_what_is_asked_otherwise_is_refused_by_name(server, objective, arguments, said):
    cut = cut_after(server, 3)
    calls = len(server.requests)
    with bertscope.Client(server.target) as client, pytest.raises(bertscope.InvalidArgument, match=said) as caught:
        client.sweep_heads(objective, start_from=cut, **arguments)
    assert "leave start_from out" in str(caught.value)
    assert len(server.requests) == calls


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"weights_digest": "sha256:" + "1" * 64}, "weights digest sha256:00"),
        ({"runtime": common_pb2.RUNTIME_ONNX}, "runtime torch, and this server has onnx"),
        ({"precision": common_pb2.PRECISION_FLOAT16}, "precision fp32, and this server has fp16"),
        ({"device": "cuda:0"}, "device cpu, and this server has cuda"),
        ({"library_versions": {"torch": "2.0.0"}}, r"version of torch 2\.15\.0, and this server has 2\.0\.0"),
    ],
)
def test_a_model_that_differs_is_refused_by_name(server, fields, said):
    cut = cut_after(server, 3)
    provenance = type(PROVENANCE)()
    provenance.CopyFrom(PROVENANCE)
    provenance.MergeFrom(type(PROVENANCE)(**fields))
    server.provenance = provenance
    with bertscope.Client(server.target) as client:
        sweep = client.sweep_heads(PROMPTS, start_from=cut)
        with pytest.raises(bertscope.FailedPrecondition, match=said):
            sweep.table()
        assert sweep.partial() is cut


def test_another_name_or_device_of_the_same_kind_is_the_same_model(server):
    cut = cut_after(server, 3)
    cut = replace(cut, summary=replace(cut.summary, provenance=replace(cut.provenance, model="models/other", device="cpu:1")))
    with bertscope.Client(server.target) as client:
        assert client.sweep_heads(PROMPTS, start_from=cut).table().count == 12


@pytest.mark.parametrize(("moved", "refused"), [(1e-7, False), (1e-3, True)])
def test_a_baseline_that_differs_is_refused(server, moved, refused):
    cut = cut_after(server, 3)
    baseline = {name: score * (1 + moved) for name, score in cut.start.baseline.items()}
    cut = replace(cut, start=replace(cut.start, baseline=baseline))
    with bertscope.Client(server.target) as client:
        sweep = client.sweep_heads(PROMPTS, start_from=cut)
        if refused:
            with pytest.raises(bertscope.FailedPrecondition, match="baseline accuracy"):
                sweep.table()
        else:
            assert sweep.table().count == 12


def test_a_server_that_does_not_know_how_is_refused(server):
    cut = cut_after(server, 3)

    def old(messages):
        for message in messages:
            if message.HasField("start"):
                message.start.ClearField("done")
            yield message

    server.stream = old
    with bertscope.Client(server.target) as client, pytest.raises(bertscope.FailedPrecondition, match="of this version"):
        client.sweep_heads(PROMPTS, start_from=cut).table()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"mode": "zero"}', "nothing", '{"start": 1, "summary": 2}'])
def test_other_files_are_refused(server, tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with bertscope.Client(server.target) as client:
        with pytest.raises(bertscope.InvalidArgument, match=r"x\.json is not a sweep as JSON"):
            client.sweep_heads(PROMPTS, start_from=path)
        with pytest.raises(bertscope.InvalidArgument, match="must be a SweepTable or its file, not int"):
            client.sweep_heads(PROMPTS, start_from=5)  # type: ignore[arg-type]
        with pytest.raises(FileNotFoundError):
            client.sweep_heads(PROMPTS, start_from=tmp_path / "none.json")
    assert server.requests == []


@pytest.fixture
def command(server, capsys, monkeypatch, tmp_path):
    """Runs a command against the server, in a folder of its own: its exit code, stdout and stderr."""
    monkeypatch.setenv("BERTSCOPE_TARGET", server.target)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.tsv").write_text("text\tanswer\na [MASK]\tb\nc [MASK]\td\n")

    def run_command(*arguments: object) -> tuple[int, str, str]:
        code = run(["sweep", "--prompts", "prompts.tsv", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


@pytest.mark.slow
def test_what_came_is_written_under_a_name_that_says_so(command, server, tmp_path):
    assert command("--output", "whole.csv")[0] == 0
    server.stream = breaking_after(5)
    code, out, err = command("--output", "effects.csv", "--plot", "heat.png")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "CUT SHORT: 5 of 12 are measured" in out
    assert "the rest: the same command with --resume effects.partial.json" in out
    written = {path.name for path in tmp_path.iterdir()}
    assert {"effects.partial.csv", "effects.partial.json", "heat.partial.png"} <= written
    assert not {"effects.csv", "heat.png"} & written
    assert len(list(csv.DictReader((tmp_path / "effects.partial.csv").open()))) == 10
    state = json.loads((tmp_path / "effects.partial.json").read_text())
    assert (state["complete"], len(state["effects"]), state["start"]["total"]) == (False, 5, 12)
    server.stream = lambda messages: messages
    code, out, err = command("--output", "effects.csv", "--resume", "effects.partial.json")
    assert (code, err) == (0, "")
    assert "CUT SHORT" not in out
    assert "5 of 12 came from an earlier run" in out
    assert len(server.requests[-1].done) == 5
    assert (tmp_path / "effects.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_json_says_that_it_is_a_part_and_may_be_gone_on_from(command, server, tmp_path):
    server.stream = breaking_after(5)
    code, out, _ = command("--json")
    document = json.loads(out)
    assert (code, document["complete"], len(document["effects"])) == (1, False, 5)
    assert list(tmp_path.glob("*.json")) == []
    (tmp_path / "part.json").write_text(out)
    server.stream = lambda messages: messages
    code, out, err = command("--json", "--resume", "part.json")
    assert (code, err, json.loads(out)["complete"], json.loads(out)["resumed"]) == (0, "", True, 5)


def test_nothing_that_came_is_nothing_to_write(command, server, tmp_path):
    server.stream = breaking_after(0)
    code, out, err = command("--output", "effects.csv")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.tsv"]


def test_a_command_that_asks_otherwise_is_refused(command, server):
    server.stream = breaking_after(5)
    command("--output", "effects.json")
    calls = len(server.requests)
    code, out, err = command("--resume", "effects.partial.json", "--seed", 3)
    assert (code, out) == (1, "")
    assert "--resume was measured with seed 0, and this sweep is asked with seed 3" in err
    assert "leave --resume out and measure all" in err
    assert len(server.requests) == calls
