"""The command line by itself: arguments, help, one line and an exit code for each failure."""

import dataclasses
import importlib.util
import json
import os
import types
from typing import Annotated

import bertscope
import pytest
import typer
from bertscope.rpc import channel
from bertscope_workbench.command import groups as option_groups
from bertscope_workbench.command.app import app, run
from bertscope_workbench.command.checked_commands import Commands
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.views import output
from bertscope_workbench.command.views.files import require_output
from bertscope_workbench.command.views.wording import in_options
from typer.testing import CliRunner


@pytest.mark.parametrize(
    "arguments",
    [[], ["models"], ["--help"], ["fill", "--help"], ["models", "load", "--help"], ["sweep", "--help"], ["compress", "--help"]],
)
def test_help(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_help_lists_the_commands():
    output = CliRunner().invoke(app, []).output
    for command in (
        "serve",
        "demo",
        "explore",
        "models",
        "fill",
        "attention",
        "classify",
        "tag",
        "predict",
        "sweep",
        "rank",
        "prune",
        "compress",
        "benchmark",
        "health",
    ):
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
        (["fill", "x", "--decoding", "greedy"], "--decoding"),
        (["fill", "x", "--piece-id", "-1"], "piece-id"),
        (["fill", "x", "--beam-width", "0"], "beam-width"),
        (["fill", "x", "--max-pieces", "0"], "max-pieces"),
        (["fill", "-", "a [MASK]"], "stdin"),
        (["attention"], "TEXT"),
        (["lens"], "give TEXT, or --train FILE"),
        (["lens", "x", "--keep", "a.npz"], "--keep goes with --train"),
        (["lens", "x", "--train", "a.txt"], "TEXT does not go with --train"),
        (["lens", "--train", "a.txt", "--plot", "a.png"], "--plot does not go with --train"),
        (["lens", "x", "--attribute", "a,b", "--lens", "a.npz"], "--lens does not go with --attribute"),
        (["attention", "x", "--layer", "-1"], "--layer"),
        (["models", "load"], "SOURCE"),
        (["classify", "a", "b", "--pair", "c"], "--pair"),
        (["classify", "-", "--pair", "c"], "--pair"),
        (["classify", "a", "--mean", "x"], "--mean x"),
        (["sweep"], "say what to measure"),
        (["sweep", "--texts", "a.txt", "--pairs", "b.tsv"], "not 2"),
        (["sweep", "--texts", "a.txt", "--mode", "half"], "--mode"),
        (["sweep", "--texts", "a.txt", "--scope", "model"], "--scope"),
        (["sweep", "--texts", "a.txt", "--set", "3:1", "--scope", "heads"], "--set and --scope"),
        (["sweep", "--texts", "a.txt", "--step", "2"], "--greedy"),
        (["sweep", "--texts", "a.txt", "--max-removed", "2"], "--greedy"),
        (["sweep", "--texts", "a.txt", "--limit", "0"], "--limit"),
        (["sweep", "--texts", "a.txt", "--scoring", "original"], "--scoring goes with --pairs, not with --texts"),
        (["sweep", "--pairs", "a.tsv", "--mask-share", "0.1"], "--mask-share goes with --texts"),
        (["sweep", "--pairs", "a.tsv", "--skip-multi-piece"], "--skip-multi-piece goes with --prompts"),
        (["sweep", "--pairs", "a.tsv", "--columns", "good"], "--columns good: write NAME=COLUMN"),
        (["sweep", "--texts", "a.txt", "--plot", "a.html"], "--plot a.html: the name must end with .png"),
        (["sweep", "--texts", "a.txt", "--plot", "/nowhere/a.png"], "there is no folder /nowhere"),
        (["sweep", "--texts", "a.txt", "--output", "a.xls"], "--output a.xls: the name must end with .tsv"),
        (["rank", "--plot", "a.gif"], "--plot a.gif"),
        (["prune", "--heads", "1"], "--name"),
        (["prune", "--name", "x"], "--heads, or --least"),
        (["prune", "--name", "x", "--heads", "1", "--least", "0.1"], "--heads, or --least"),
        (["prune", "--name", "x", "--heads", "1", "--texts", "a.txt"], "goes with --least"),
        (["prune", "--name", "x", "--heads", "1:a"], "--heads 1:a"),
        (["prune", "--name", "x", "--least", "2"], "--least"),
        (["prune", "--name", "x", "--least", "0.5"], "say what to measure"),
        (["models", "load", "a", "--runtime", "tvm"], "--runtime"),
        (["compress", "--steps", "int8"], "--name"),
        (["compress", "--name", "x"], "--steps"),
        (["compress", "--steps", "int8,nonsense", "--name", "x"], "--steps nonsense: there is no step"),
        (["compress", "--steps", "int8", "--texts", "a.txt", "--name", "x"], "--texts goes with a step that ranks"),
        (["benchmark"], "say what to measure: --model NAME for each, or --studies"),
        (["benchmark", "--model", "a", "--heavy"], "--heavy goes with --studies only"),
        (["benchmark", "--studies", "--model", "a"], "--model goes without --studies only"),
        (["benchmark", "--studies", "--loss", "a.txt"], "--loss goes without --studies only"),
        (["benchmark", "--studies", "--plot", "a.png"], "--plot goes without --studies only"),
        (["benchmark", "--model", "a", "--plot", "a.png"], "--plot shows what models lost: give --agreement"),
        (["benchmark", "--model", "a", "--plot", "a.gif"], "--plot a.gif"),
        (["benchmark", "--model", "a", "--output", "a.md", "--output", "a.xls"], "--output a.xls: the name must end with .md"),
        (["benchmark", "--model", "a", "--prompts", "a.tsv", "--loss", "b.txt"], "not 2"),
        (["benchmark", "--model", "a", "--pairs", "a.tsv", "--mask-share", "0.1"], "--mask-share goes with --loss"),
        (["benchmark", "--model", "a", "--length", "0"], "--length"),
        (["benchmark", "--model", "a", "--length", "8", "--texts", "a.txt"], "--length and --texts exclude each other"),
        (["benchmark", "--model", "a", "--top-k", "3"], "--top-k goes with --agreement"),
        (["benchmark", "--model", "a", "--limit", "3"], "--limit goes with one of --prompts, --loss, --pairs, --labelled"),
        (["benchmark", "--model", "a", "--plot", "a.png", "--loss", "a.txt"], "name two or more with --model"),
        (["benchmark", "--studies", "--texts", "a.txt"], "--texts goes without --studies only"),
        (["benchmark", "--studies", "--skip-multi-piece"], "--skip-multi-piece goes without --studies only"),
        (["benchmark", "--model", "a", "--others", "kill"], "--others"),
        (["score", "--pairs", "a.tsv", "--output", "b.tex", "--summary", "./b.tex"], "would overwrite that of"),
        (["relations", "a.csv", "--output", "a.csv"], "--output a.csv would overwrite that of FILE: write to another file"),
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
    assert (
        captured.err
        == f"bertscope {arguments[0]} needs the server (bertscope-service): in a checkout, pip install . ./service\n"
    )


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--port", "1", "--model", "a=b", "--model", "c"], ["x", "--json", "--", "-v"]]
)
def test_serve_hands_over_all_its_arguments(arguments, monkeypatch):
    seen = []

    def main(argv):
        seen.append(argv)
        return 7

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib, "import_module", lambda name: types.SimpleNamespace(run=main))
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


def test_a_mean_is_an_intervention():
    assert specifications.head_interventions(None, None, None, ["3:1", "2"]) == [bertscope.mean(3, [1]), bertscope.mean(2)]


def test_sets_of_heads():
    assert specifications.head_set("--set", "3:1,4+5:0+2") == {3: [1, 4], 5: [0], 2: None}
    for wrong in ("", "3:", "3:1+", "3:1;4", "3:1+3:2", "a:1", "-1"):
        with pytest.raises(typer.BadParameter, match="--set"):
            specifications.head_set("--set", wrong)


def test_heads_of_a_repeated_option_are_joined():
    assert specifications.all_heads("--heads", ["3:4", "5", "3:1,4", "5:2", "0:1+1"]) == {3: [1, 4], 5: None, 0: [1], 1: None}


def test_columns():
    assert specifications.columns("--columns", None) == {}
    assert specifications.columns("--columns", "text=sentence 1, label=a=b") == {"text": "sentence 1", "label": "a=b"}
    for wrong in ("text", "=a", "text=", "text=a,"):
        with pytest.raises(typer.BadParameter, match="--columns"):
            specifications.columns("--columns", wrong)


@pytest.mark.parametrize(("value", "expected"), [("4096", 4096), ("256MiB", 2**28), ("1.5 GB", 1_500_000_000), ("8 kB", 8000)])
def test_byte_counts(value, expected):
    assert specifications.byte_count("--memory", value) == expected


@pytest.mark.parametrize("value", ["", "MiB", "256 mib", "-1", "1e9", "1,5GB"])
def test_what_is_no_byte_count(value):
    with pytest.raises(typer.BadParameter, match="--memory"):
        specifications.byte_count("--memory", value)


def test_options_of_a_group_are_options_of_the_command():
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Group:
        """Two options."""

        size: Annotated[int, typer.Option("--size")] = 3
        names: Annotated[list[str] | None, typer.Option("--name")] = None

    @option_groups.grouped
    def command(
        group: Group, text: Annotated[str, typer.Argument()], more: Annotated[bool, typer.Option("--more")] = False
    ) -> None:
        """What it does."""
        seen.append((group, text, more))

    application = typer.Typer()
    application.command()(command)
    for arguments in (["a"], ["--size", "4", "a", "--name", "x", "--name", "y", "--more"]):
        assert CliRunner().invoke(application, arguments).exit_code == 0
    assert seen == [(Group(), "a", False), (Group(4, ["x", "y"]), "a", True)]
    assert "What it does." in CliRunner().invoke(application, ["--help"]).output


def test_choices_of_the_client_are_written_with_dashes():
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Group:
        """One option."""

        scoring: Annotated[bertscope.Scoring, option_groups.option("--scoring", "How."), option_groups.DASHED] = "within_word"

    def command(
        group: Group,
        order: Annotated[bertscope.Order | None, option_groups.option("--order", "Which."), option_groups.DASHED] = None,
    ) -> None:
        seen.append((group.scoring, order))

    application = Commands()
    application.command()(command)
    for arguments in ([], ["--scoring", "whole-word", "--order", "best-remaining"]):
        assert CliRunner().invoke(application, arguments).exit_code == 0
    assert seen == [("within_word", None), ("whole_word", "best_remaining")]
    assert CliRunner().invoke(application, ["--order", "best_remaining"]).exit_code == 2


def test_without_matplotlib_nothing_is_measured_for_a_figure(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["sweep", "--texts", "a.txt", "--plot", "a.png"]) == 1
    assert capsys.readouterr().err == "bertscope: figures need matplotlib: pip install matplotlib\n"


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


@pytest.mark.parametrize(
    ("says", "becomes"),
    [
        ("texts[3] has 600 tokens and m reads 512; shorten it, or set truncate", "set --truncate"),
        ("objective.cloze.skip_multi_piece leaves these out", "--skip-multi-piece leaves"),
        ("token: would travel to h:1 in clear text; use TLS, or insecure_token where", "--token-file: would travel"),
        ("token: would travel to h:1 in clear text; use TLS, or insecure_token where", "use --tls, or --insecure-token"),
        ("top_k is 0; use 1 to 5", "--top-k is 0"),
        ("layers[0]: layer 9 is out of range", "--layer: layer 9"),
        ("it may speak TLS: call it with tls=bertscope.Tls(ca=...)", "call it with --ca FILE"),
        ("interventions[0].layer: layer 99 is out of range", "--zero, --uniform, --mean or --scale: layer 99"),
        ("no answer within 1 s; allow more with timeout=", "allow more with --timeout"),
        ("punctuation[0] is no single piece of this model's vocabulary", "--punctuation is no single piece"),
        ("f.conllu: has no roles; dependencies are read with read_conllu", "leave --propbank out"),
        ("other_model: models/m is compared with itself; name another model in other_model, or send interventions", "(--zero)"),
    ],
)
def test_failures_speak_of_options(says, becomes):
    assert becomes in in_options(says)
    assert in_options(in_options(says)) == in_options(says)


def fails(capsys, *arguments):
    code = run(arguments)
    return code, capsys.readouterr().err


NOBODY = ("--target", "127.0.0.1:1")


@pytest.fixture
def asked_once(monkeypatch):
    """No call is tried again: the client pauses before it asks a server again that is not there."""
    config = channel.service_config
    monkeypatch.setattr(channel, "service_config", lambda _: config(bertscope.Retries(1)))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("attention", "x", "--plot", "/no/such/folder/a.png"), "there is no folder /no/such/folder"),
        (("attention", "x", "--plot", "a.jpeg"), "--plot"),
        (("fill", "--texts", "x.txt", "--output", "a.tex"), "can't be; write .csv, .jsonl or .parquet"),
        (("attention", "x", "--plot", "a.html", "--fixed-scale"), "must end with .png, .svg or .pdf"),
        (("attention", "x", "--hide-special"), "--hide-special goes with --plot"),
        (("attention", "x", "--plot", "a.png", "--fixed-scale", "--quantity", "norms"), "goes with --quantity weights"),
        (("attention", "x", "--describe", "--fixed-scale"), "--fixed-scale does not go with --describe"),
        (("attention", "x", "--layer", "-1"), "layers and heads count from 0"),
        (("fill", "[MASK]", "--zero", "0:-1"), "layers and heads count from 0"),
        (("attention", "x", "--target", ""), "--target is empty"),
        (("attention", "x", "--target", "localhost"), 'write "localhost:50051"'),
    ],
)
def test_wrong_use_is_told_before_the_server_is_asked(capsys, monkeypatch, arguments, says):
    monkeypatch.delenv("BERTSCOPE_TARGET", raising=False)
    code, error = fails(capsys, *arguments, *(() if "--target" in arguments else NOBODY))
    assert code == 2
    assert says in error


WRITING = [
    (("sweep", "--texts", "FILE", "--output"), ".tsv"),
    (("sweep", "--texts", "FILE", "--plot"), ".png"),
    (("rank", "--texts", "FILE", "--plot"), ".png"),
    (("benchmark", "--model", "m", "--output"), ".html"),
    (("benchmark", "--model", "m", "--model", "n", "--agreement", "FILE", "--plot"), ".png"),
    (("benchmark", "--studies", "--output"), ".csv"),
    (("study", "capitals", "--output"), ".html"),
    (("study", "layers", "--data", "FOLDER", "--output"), ".html"),
    (("study", "dark-secrets", "--data", "FOLDER", "--output"), ".html"),
    (("primer", "--output"), ".html"),
    (("trace", "a", "b", "--answers", "is,are", "--output"), ".tsv"),
    (("trace", "a", "b", "--answers", "is,are", "--plot"), ".png"),
    (("probe", "FILE", "--keep"), ".npz"),
    (("erase", "FILE", "--save"), ".npz"),
    (("codes", "--layer", "1", "--train", "FILE", "--save"), ".safetensors"),
    (("lens", "--train", "FILE", "--keep"), ".npz"),
    (("geometry", "--texts", "FILE", "--word-output"), ".csv"),
    (("relations", "FILE", "--summary"), ".csv"),
    (("score", "--pairs", "FILE", "--errors-output"), ".csv"),
    (("attention", "--describe", "--texts", "FILE", "--output"), ".csv"),
    (("states", "--texts", "FILE", "--output"), ".parquet"),
]


@pytest.mark.parametrize(
    ("arguments", "suffix"), WRITING, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
@pytest.mark.parametrize(
    ("name", "says"), [("no-such/x{}", "there is no folder"), ("x" * 300 + "{}", "can't be written"), ("x.docx", ".docx")]
)
def test_a_file_that_cant_be_written_is_told_before_anything_is_measured(capsys, tmp_path, arguments, suffix, name, says):
    (tmp_path / "file.txt").write_text("one\n")
    given = [{"FILE": str(tmp_path / "file.txt"), "FOLDER": str(tmp_path)}.get(part, part) for part in arguments]
    code, error = fails(capsys, *given, str(tmp_path / name.format(suffix)), *NOBODY)
    assert (code, says in error) == (2, True), error
    assert f"{arguments[-1]} " in error
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="this system has no folder that takes no files from anybody")
def test_a_folder_that_takes_no_files_is_told_before_anything_is_measured(capsys):
    code, error = fails(capsys, "benchmark", "--model", "m", "--output", "/proc/x.html", *NOBODY)
    assert (code, "--output /proc/x.html: it can't be written" in error) == (2, True)


def test_a_file_that_is_there_keeps_its_content_until_it_is_written(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("kept")
    require_output(path, (".csv",))
    assert path.read_text() == "kept"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("fill", "x", "--model", "a", "--model", "b"), "--model is given twice; it takes one value"),
        (("fill", "x", "-k", "2", "--top-k", "3", "-k", "4"), "--top-k is given 3 times"),
        (("models", "list", "--target", "a:1", "--target=b:2"), "--target is given twice"),
        (("compress", "--steps", "int8", "--name", "a", "--steps", "onnx", "--name", "b"), "--name is given twice"),
    ],
)
def test_an_option_of_one_value_is_not_given_twice(capsys, arguments, says):
    code, error = fails(capsys, *arguments)
    assert (code, says in error) == (2, True), error


def test_options_may_be_repeated_where_they_hold_several_values_or_none(capsys, asked_once):
    for arguments in (("fill", "x", "--zero", "0:1", "--zero", "0:2"), ("score", "x", "--json", "--json")):
        code, error = fails(capsys, *arguments, *NOBODY)
        assert "no server listens" in error, (code, error)
    code, error = fails(capsys, "fill", *NOBODY, "--", "--model", "--model")  # These are texts.
    assert "no server listens" in error, (code, error)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        *((command, "did you mean --texts a.tsv") for command in ("cka", "geometry", "score", "attention", "states", "fill")),
        *((command, "did you mean --texts a.tsv") for command in ("classify", "tag", "predict")),
        ("score", "or --pairs a.tsv?"),
        ("lens", "did you mean --train a.tsv?"),
        ("answer", "did you mean --questions a.tsv"),
    ],
)
def test_a_file_is_no_text(capsys, monkeypatch, asked_once, tmp_path, command, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("text\n")
    (tmp_path / "cat").write_text("a word that is a name")
    for texts in (("a.tsv",), ("A cat.", "a.tsv")) if command != "lens" else (("a.tsv",),):
        code, error = fails(capsys, command, *texts, *NOBODY)
        assert (code, "a.tsv is a file: " in error, says in error) == (2, True, True), error
    code, error = fails(capsys, command, "cat", *NOBODY)
    assert "is a file" not in error


def test_a_file_is_no_text_of_an_option_either(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a passage")
    assert "did you mean --passage-file a.txt?" in fails(capsys, "answer", "Who?", "--passage", "a.txt", *NOBODY)[1]
    assert "a.txt is a file, and --query takes a text" in fails(capsys, "predict", "x", "--query", "a.txt", *NOBODY)[1]


def test_pictures_without_matplotlib_are_refused_before_the_server_is_asked(capsys, monkeypatch, asked_once, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, error = fails(capsys, "attention", "x", "--plot", str(tmp_path / "a.png"), *NOBODY)
    assert (code, "figures need matplotlib" in error) == (1, True)
    code, error = fails(capsys, "attention", "x", "--plot", str(tmp_path / "a.html"), *NOBODY)
    assert "no server listens" in error


def test_the_shell_is_told_how_to_complete(monkeypatch, capsys):
    for name, value in {"_BERTSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": "bertscope fill --tr", "COMP_CWORD": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run([])
    assert capsys.readouterr().out.split() == ["--truncate"]
