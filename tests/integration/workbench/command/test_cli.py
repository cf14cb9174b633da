"""The command against a server on a socket: tables, JSON, exit codes, one line for a failure."""

import json
import shlex

import pytest
from google.rpc import code_pb2, error_details_pb2

from tests.support.patience import granted

ASKED = """\
models list --json
models load org/new --name mine --device cpu --json
models load org/new --name mine --replace
models unload mine
fill 'Paris is the capital of [MASK].' --top-k 2 --model fake --zero 1:0,2 --uniform 2 --scale 0:3=0.5
fill 'Paris is the capital of [MASK].' --candidates 'France, Spain' --candidate 'a, b' --json
fill '[bold]x[/bold] :smile: \x1b[31m [MASK]'
"""


def test_what_commands_send_and_say(command, server, stored):
    """A text that looks like markup is printed as it is."""
    found = {line: command(*shlex.split(line)) for line in ASKED.splitlines()}
    assert all(code == 0 for code, *_ in found.values())
    stored(
        printed="".join(f"$ {line!r}\n{out}{err}\n" for line, (_, out, err) in found.items() if "--json" not in line),
        documents={line: json.loads(out) for line, (_, out, _) in found.items() if "--json" in line},
        requests=server.requests,
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("fill",), ("fill", "-")])
def test_fill_reads_lines_in_calls_that_no_server_refuses(command, server, arguments):
    lines = [f"line {index} [MASK] é" for index in range(150)]
    text = "\ufeff" + "\r\n".join(lines) + "\n\n"
    code, out, _ = command(*arguments, "--json", stdin=text.encode())
    assert code == 0
    assert [result["text"].strip() for result in json.loads(out)["results"]] == lines
    assert sum(len(request.texts) for request in server.requests) == 150
    assert max(len(request.texts) for request in server.requests) <= 128


def test_stdin_that_is_no_text_is_one_line(command):
    code, out, err = command("fill", "-", stdin=b"\xff\xfe[MASK]")
    assert (code, out) == (1, "")
    assert err == "bertscope: line 1 is not UTF-8: invalid start byte\n"
    code, _, err = command("fill", stdin=b"a [MASK]\n\n\xff\n")
    assert (code, err) == (1, "bertscope: line 3 is not UTF-8: invalid start byte\n")


@pytest.mark.parametrize("stdin", [b"", b"\n \n"])
@pytest.mark.parametrize("arguments", [(), ("-", "--json")])
def test_stdin_without_text_is_wrong_use(command, server, arguments, stdin):
    code, out, err = command("fill", *arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert err == "bertscope: no text: stdin has no line that is not blank (try: bertscope fill --help)\n"
    assert server.requests == []


def test_a_refused_line_is_named_by_its_number(command, server, abort):
    def judge(request, context):
        if "no mask" in request.texts:
            violation = error_details_pb2.BadRequest.FieldViolation(field="texts[1]", description="has no mask")
            bad_request = error_details_pb2.BadRequest(field_violations=[violation])
            abort(code_pb2.INVALID_ARGUMENT, "has no mask", bad_request)(context)

    server.judge = judge
    code, out, err = command("fill", "--json", stdin=b"\n" + b"a [MASK]\n" * 64 + b"\nb [MASK]\nno mask\n")
    assert (code, out) == (1, "")
    assert err == "bertscope: line 68: has no mask\n"


def test_attention_is_a_head_in_each_row_a_map_or_the_strongest_pairs(command, stored):
    """Of one head the whole map, where it fits."""
    asked = {
        "rows": ("the cat sat", "--layer", "1"),
        "map": ("the cat sat", "--layer", "1", "--head", "2"),
        "pairs": (" ".join(["word"] * 100), "--layer", "1", "--head", "2"),
    }
    found = {name: command("attention", *arguments) for name, arguments in asked.items()}
    assert {code for code, *_ in found.values()} == {0}
    assert max(map(len, found["pairs"][1].splitlines())) <= 160
    stored(**{name: out for name, (_, out, _) in found.items()})


@pytest.mark.parametrize(("name", "begins"), [("map.html", b"<!doctype html>"), ("map.png", b"\x89PNG")])
def test_attention_plot(command, tmp_path, name, begins):
    path = tmp_path / name
    code, out, _ = command("attention", "the cat", "--layer", "0", "--plot", str(path))
    assert code == 0
    assert path.read_bytes().startswith(begins)
    assert "wrote" in out


def test_health(command, server):
    code, out, err = command("health")
    assert (code, err) == (0, "")
    assert "SERVING" in out
    server.health.set("", 2)
    code, out, err = command("health", "--json")
    assert code == 1
    assert json.loads(out)["serving"] is False
    assert err.count("\n") == 1
    assert "NOT_SERVING" in err
    code, _, err = command("health", "--wait", "0.2")
    assert code == 1
    assert err.count("\n") == 1
    assert err.endswith("within 0.2 s; allow more with --wait\n")


def test_health_of_one_service(command, server):
    name = "bertscope.v1.ClozeService"
    server.health.set(name, 1)
    code, out, err = command("health", "--service", name)
    assert (code, err) == (0, "")
    assert name in out and "AttentionService" not in out
    server.health.set(name, 2)
    code, out, err = command("health", "--service", name, "--json")
    assert (code, json.loads(out)) == (1, {"serving": False, "status": "NOT_SERVING", "services": {name: "NOT_SERVING"}})
    assert err == f"bertscope: {name} at {server.target} is NOT_SERVING\n"
    code, out, err = command("health", "--service", "ClozeService")
    assert (code, out) == (2, "")
    assert name in err and err.count("\n") == 1


def test_the_time_limit_is_one_line(command, server, wait_for):
    server.fail = lambda context: wait_for.wait(granted(60))
    code, out, err = command("models", "list", "--timeout", "0.2")
    assert (code, out) == (1, "")
    assert err.endswith("within 0.2 s; allow more with --timeout\n")
    assert err.count("\n") == 1
