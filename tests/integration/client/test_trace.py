"""`sweep_sites` and `trace` of both clients, and `bertscope trace`, against a server on a socket."""

import csv
import itertools
import json

import bertscope
import numpy as np
import pytest
from bertscope.rpc import pacing
from bertscope.v1 import common_pb2
from google.rpc import code_pb2, error_details_pb2

from tests.support.both_clients import asked, asked_async

TARGET = bertscope.Answer("are", "is")
CLEAN = ["a keys [MASK]", "bb keys [MASK]", "ccc keys [MASK]", "dddd keys [MASK]"]
CORRUPTED = [text.replace("keys", "key") for text in CLEAN]


def value(texts, layer, position):
    return sum(len(text) for text in texts) / len(texts) * (layer + 1) * (position + 1) / 100


@pytest.fixture
def small(monkeypatch):
    """Calls of one pair each."""
    monkeypatch.setattr(pacing, "FIRST_WORK", 0.0)
    monkeypatch.setattr(pacing, "CALL_SECONDS", 0.0)


def breaking_in(call):
    """A server that goes after one effect of a call."""
    calls = itertools.count(1)

    def stream(messages):
        if next(calls) == call:
            yield from itertools.islice(messages, 2)
            raise RuntimeError("gone")
        yield from messages

    return stream


def test_many_pairs_are_added_whatever_their_calls(server, small):
    def call(client):
        return client.trace(CLEAN, CORRUPTED, TARGET, sites=["heads", "state"], interventions=bertscope.mean_site(1))

    trace = asked(server.target, call)
    assert [len(request.pairs) for request in server.requests] == [1, 1, 1, 1]
    assert all(len(request.site_interventions) == 1 for request in server.requests)
    assert [pair.text for pair in trace.pairs] == CLEAN
    assert {effect.count for effect in trace.effects} == {4}
    expected = [[value(CLEAN, layer, position) for position in range(3)] for layer in range(3)]
    np.testing.assert_allclose(trace.matrix("difference", "state"), expected)
    assert asked_async(server.target, call).effects == trace.effects


def test_other_weights_are_not_added(server, small):
    with bertscope.Client(server.target) as client:
        server.stream = breaking_in(2)
        with pytest.raises(bertscope.BertscopeError) as caught:
            client.trace(CLEAN, CORRUPTED, TARGET)
        other = common_pb2.Provenance()
        other.CopyFrom(server.provenance)
        other.weights_digest = "sha256:" + "1" * 64
        server.provenance = other
        with pytest.raises(bertscope.FailedPrecondition, match="other weights"):
            client.trace(CLEAN, CORRUPTED, TARGET, start_from=caught.value.partial)


def test_every_option_of_the_command(command, server, tmp_path, stored):
    (tmp_path / "reference.txt").write_text("one\n")
    options = ["--site", "heads", "--site", "feed-forward", "--each-unit", "--units", "1,2", "--words", "--memory", "1MiB"]
    changes = ["--zero", "2:1", "--mean-site", "state:1", "--reference", "reference.txt", "--model", "fake"]
    written = ["--output", "found.jsonl", "--plot", "found.svg", "--json"]
    code, out, err = command("trace", CLEAN[0], "--noise", "keys", "--seed", 5, "--answer", "are", *options, *changes, *written)
    assert (code, err) == (0, "")
    assert (tmp_path / "found.svg").exists()
    code, paths, _ = command("trace", CLEAN[0], "--masked", "keys", "--answer", "are", "--paths")
    assert code == 0
    rows = (tmp_path / "found.jsonl").read_text()
    stored(requests=server.requests, effects=json.loads(out)["effects"][:2], rows=rows, paths=paths)


def test_a_file_of_pairs_with_groups(command, server, tmp_path, small, stored):
    lines = [
        {
            "clean": CLEAN[0],
            "corrupted": CORRUPTED[0],
            "answer": "are",
            "other": "is",
            "groups": {"noun": "keys", "all": [[0, 6]]},
        },
        {"clean": CLEAN[1], "noise": ["keys"], "label": "good", "groups": {"noun": [3, 7]}},
        {"clean": CLEAN[2], "masked": [[4, 8]], "answer": "are"},
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, _ = command("trace", "--pairs", "pairs.jsonl", "--output", "found.csv")
    assert code == 0
    assert "3 pairs" in out
    stored(requests=server.requests)
    with (tmp_path / "found.csv").open(newline="") as file:
        assert {row["count"] for row in csv.DictReader(file)} == {"3"}


def test_a_refused_pair_is_named_by_its_line(command, server, abort, tmp_path):
    (tmp_path / "pairs.tsv").write_text(f"good\tcorrupted\tanswer\n{CLEAN[0]}\t{CORRUPTED[0]}\tare\n")
    description = "pairs[0].corrupted has 5 tokens and the clean text 4"
    violation = error_details_pb2.BadRequest.FieldViolation(field="pairs[0].corrupted", description=description)
    bad_request = error_details_pb2.BadRequest(field_violations=[violation])
    server.fail = abort(code_pb2.INVALID_ARGUMENT, description, bad_request)
    said = "corrupted has 5 tokens and the clean text 4\n"
    assert command("trace", "--pairs", "pairs.tsv", "--columns", "clean=good")[2] == f"bertscope: pairs.tsv, line 2: {said}"
    assert command("trace", CLEAN[0], CORRUPTED[0], "--answers", "are,is")[2] == f"bertscope: the pair: {said}"
    _, _, err = command("trace", "--pairs", "pairs.tsv")
    assert "has no column 'clean'; it has 'good', 'corrupted', 'answer' (--columns maps names)" in err


def test_the_command_goes_on(command, server, tmp_path, small):
    lines = [
        {"clean": clean, "corrupted": corrupted, "answer": "are"} for clean, corrupted in zip(CLEAN, CORRUPTED, strict=True)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, whole, _ = command("trace", "--pairs", "pairs.jsonl", "--json")
    server.stream = breaking_in(3)
    code, out, err = command("trace", "--pairs", "pairs.jsonl")
    assert code == 1
    assert "CUT SHORT" in out
    (rest,) = tmp_path.glob("trace-*.partial.json")
    assert f"--resume {rest.name}" in out + err
    server.requests.clear()
    code, out, _ = command("trace", "--pairs", "pairs.jsonl", "--json", "--resume", rest)
    assert code == 0
    assert len(server.requests) == 2
    assert json.loads(out)["effects"] == json.loads(whole)["effects"]
    (tmp_path / "whole.json").write_text(whole)
    code, out, _ = command("trace", "--pairs", "pairs.jsonl", "--resume", "whole.json", "--plot", "whole.png")
    assert (code, "wrote whole.png" in out, len(server.requests)) == (0, True, 2)
    code, _, err = command("trace", "--pairs", "pairs.jsonl", "--direction", "break", "--resume", rest)
    assert (code, "--resume was measured with direction" in err) == (1, True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"clean": "a b"}, "must be one of the columns corrupted, noise and masked"),
        ({"clean": "a b", "corrupted": "c d", "noise": "a"}, "must be one of the columns"),
        ({"clean": "a b", "noise": "x"}, "has 'x' 0 times"),
        ({"clean": "a b", "noise": 5}, "must be words, or places"),
        ({"clean": "a b", "corrupted": "c d", "groups": "a"}, 'must be an object, such as {"subject": "keys"}'),
        ({"clean": "a b", "corrupted": "c d"}, 'needs a value in the column "answer" or in "label"'),
    ],
)
def test_a_line_that_is_no_pair_is_named(command, tmp_path, line, says):
    (tmp_path / "pairs.jsonl").write_text(json.dumps(line) + "\n")
    code, _, err = command("trace", "--pairs", "pairs.jsonl")
    assert code in (1, 2)
    assert says in err
