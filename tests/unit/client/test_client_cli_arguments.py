"""The command line by itself: arguments, help, one line and an exit code for each failure."""

import importlib.util
import json
import types

import bertscope
import pytest
import typer
from bertscope.cli import output, specifications
from bertscope.cli.app import app, run
from typer.testing import CliRunner


@pytest.mark.parametrize("arguments", [[], ["models"], ["--help"], ["fill", "--help"], ["models", "load", "--help"]])
def test_help(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_help_lists_the_commands():
    output = CliRunner().invoke(app, []).output
    for command in ("serve", "demo", "models", "fill", "attention", "health"):
        assert f" {command} " in output


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"bertscope {bertscope.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nonsense"], "nonsense"),
        (["fill", "x", "--nonsense"], "--nonsense"),
        (["fill", "x", "--top-k", "0"], "top-k"),
        (["fill", "x", "--top-k", "many"], "top-k"),
        (["fill", "x", "--zero", "a"], "--zero a"),
        (["fill", "x", "--uniform", "1:"], "--uniform 1:"),
        (["fill", "x", "--scale", "1:2"], "--scale 1:2"),
        (["fill", "x", "--scale", "1:2=half"], "FACTOR"),
        (["fill", "x", "--candidates", ""], "--candidates"),
        (["fill", "x", "--candidates", "a,,b"], "--candidates"),
        (["fill", "-", "a [MASK]"], "stdin"),
        (["attention"], "TEXT"),
        (["attention", "x", "--layer", "-1"], "--layer"),
        (["models", "load"], "SOURCE"),
        (["health", "--timeout", "0"], "timeout"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(arguments, part, capsys):
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bertscope: ")
    assert captured.err.count("\n") == 1
    assert part in captured.err


def test_a_factor_that_is_not_finite_is_one_line(capsys):
    assert run(["fill", "x", "--scale", "1=nan"]) == 1
    assert capsys.readouterr().err == "bertscope: factor: must be finite, not nan\n"


@pytest.mark.parametrize("arguments", [["serve"], ["serve", "--port", "1"], ["serve", "--help"], ["demo"]])
def test_without_the_server_serve_and_demo_say_what_to_install(arguments, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"bertscope {arguments[0]} needs the server: pip install bertscope-service\n"


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--port", "1", "--model", "a=b", "--model", "c"], ["x", "--json", "--", "-v"]]
)
def test_serve_hands_over_all_its_arguments(arguments, monkeypatch):
    seen = []

    def main(argv):
        seen.append(argv)
        return 7

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib, "import_module", lambda name: types.SimpleNamespace(main=main))
    assert run(["serve", *arguments]) == 7
    assert seen == [arguments]


def test_numbers():
    assert specifications.numbers("--layer", None) is None
    assert specifications.numbers("--layer", ["1, 2", "0"]) == [1, 2, 0]
    for wrong in ("", "1,", "a", "-1", "1.5", "²"):
        with pytest.raises(typer.BadParameter):
            specifications.numbers("--layer", [wrong])


def test_head_interventions():
    found = specifications.head_interventions(["3:1,4", "0"], ["5"], ["2:0=-0.5", "1=2"])
    assert found == [
        bertscope.zero(3, [1, 4]),
        bertscope.zero(0),
        bertscope.uniform(5),
        bertscope.scale(2, [0], factor=-0.5),
        bertscope.scale(1, factor=2),
    ]
    described = [specifications.describe(intervention) for intervention in found]
    assert described[0] == "zero(layer=3, heads=[1, 4])"
    assert [eval(f"bertscope.{text}", {"bertscope": bertscope}) for text in described] == found


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (22_713_216, "22.7 MB"), (3.4e12, "3.4e+03 GB")]
)
def test_count(value, shown):
    assert output.count(value, "B") == shown


def test_bar():
    assert output.bar(0).plain == ""
    assert output.bar(1).plain == "█" * output.BAR_WIDTH
    assert output.bar(0.5).plain == "█" * (output.BAR_WIDTH // 2)
    assert len(output.bar(0.01).plain) == 1


def test_json_is_json_whatever_the_numbers(capsys):
    output.print_json({"a": [float("-inf"), float("nan"), 1.5], "b": ("é\ud800", None)})
    text = capsys.readouterr().out
    assert text.isascii()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, None, 1.5], "b": ["é\ud800", None]}
