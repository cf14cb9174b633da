"""The command line by itself: commands, arguments, help, one line and an exit code for each failure, signals and progress."""

import importlib.util
import inspect
import io
import json
import shlex
import subprocess
import sys
import types
from pathlib import Path

import bertscope
import numpy as np
import pytest
import typer
from bertscope.rpc import channel
from bertscope_workbench.command import commands, groups
from bertscope_workbench.command.app import GROUPS, SOUGHT, app, run
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.models import side_by_side
from bertscope_workbench.command.parts import score_pairs
from bertscope_workbench.command.parts.score_models import print_models
from bertscope_workbench.command.views import output, progress
from bertscope_workbench.command.views.wording import filled, in_options
from rich.console import Console

from tests.support.patience import wait_until
from tests.support.stored_outputs import outcome, printed
from tests.support.text_sets import comparison
from tests.support.treebank import TREE

GROUP = typer.main.get_command(app)
MODULES = sorted(path.stem.replace("_", "-") for path in Path(commands.__path__[0]).glob("[a-z]*.py"))


def test_each_module_of_the_folder_is_a_command():
    assert sorted(GROUP.commands) == MODULES
    assert GROUP.list_commands(None) == [name for names in GROUPS.values() for name in names]


def test_options_that_go_together_exist():
    every = [each for command in GROUP.commands.values() for each in (command, *getattr(command, "commands", {}).values())]
    annotations = [getattr(command.callback, "__annotations__", {}) for command in every]
    declared = [part for own in annotations for each in own.values() for part in getattr(each, "__metadata__", ())]
    named = {name for part in declared for name in (*getattr(part, "needs", ()), *getattr(part, "without", ()))}
    assert len(named) > 20
    assert named <= {name for own in annotations for name in own}


def test_what_people_look_for_names_commands_that_there_are(capsys):
    assert {*SOUGHT} <= {*MODULES} and not {name for names in SOUGHT.values() for name in names.split()} & {*MODULES}
    assert fails(capsys, "ner", "x") == (2, "bertscope: No such command 'ner'; see bertscope tag\n")


def test_a_file_that_no_argument_takes_goes_to_an_option(capsys, tmp_path):
    (tmp_path / "pairs.tsv").write_text("good\tbad\n")
    code, said = fails(capsys, "sweep", str(tmp_path / "pairs.tsv"))
    assert code == 2
    assert "pairs.tsv is a file: give it to one of --prompts, --texts, --pairs, " in said


def test_help_has_the_commands_own_options_and_those_of_all_by_name(capsys, monkeypatch, stored):
    shown = {}
    for width in ("80", "120"):
        monkeypatch.setenv("COLUMNS", width)
        for line in ("--help", "help score", "score pairs --help", "compress --help", "attention --help-all"):
            assert run(line.split()) == 0
            shown[f"{line}, {width}"] = capsys.readouterr().out
            assert max(map(len, shown[f"{line}, {width}"].splitlines())) <= int(width) or "compress" in line
    stored(**{name.replace(" ", "_").replace("-", "").replace(",", ""): text for name, text in shown.items()})


def test_the_server_may_be_named_before_the_command(capsys, asked_once):
    assert "no server listens at 127.0.0.1:1" in fails(capsys, *NOBODY, "models", "list")[1]
    assert "no server listens at 127.0.0.1:1" in fails(capsys, *NOBODY, "fill", "x")[1]
    assert "--target is given twice" in fails(capsys, *NOBODY, "fill", "x", *NOBODY)[1]
    assert "bertscope token calls none" in fails(capsys, *NOBODY, "token", "x")[1]


def test_a_command_is_listed_as_it_is():
    for name in MODULES:
        listed, real = GROUP.get_command(None, name), GROUP.commands[name]
        assert listed.name == real.name == name
        assert listed.help == inspect.cleandoc(real.help)
        assert listed.hidden == real.hidden


def imported_by(arguments: list[str]) -> list[str]:
    """Returns the modules that a process has imported once it ran a command."""
    code = (
        f"import sys; from bertscope_workbench.command.app import run; run({arguments}); print(*sys.modules, file=sys.stderr)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()


@pytest.mark.slow
def test_only_the_command_that_runs_is_imported():
    """Typer converts values that are no texts by pydantic, whose import takes as long as all else that a short command does."""
    assert "pydantic" not in imported_by(["fill", "--model", "m", "a", "b", "--json", "--columns", "text=a"])
    for arguments, imported in ((["--help"], set()), (["token", "--help"], {"token"})):
        modules = imported_by(arguments)
        prefix = f"{commands.__name__}."
        assert {name.removeprefix(prefix) for name in modules if name.startswith(prefix)} == imported
        assert imported or not {"grpc", "numpy", "pydantic"} & {*modules}


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"bertscope {bertscope.__version__}\n"


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


def test_json_is_json_whatever_the_numbers(capsys):
    output.print_json({"a": [float("-inf"), float("nan"), 1.5], "b": ("é\ud800", None)})
    text = capsys.readouterr().out
    assert text.isascii()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, None, 1.5], "b": ["é\ud800", None]}


def fails(capsys, *arguments):
    code = run(arguments)
    return code, capsys.readouterr().err


NOBODY = ("--target", "127.0.0.1:1")


@pytest.fixture
def asked_once(monkeypatch):
    """No call is tried again: the client pauses before it asks a server again that is not there."""
    config = channel.service_config
    monkeypatch.setattr(channel, "service_config", lambda _: config(bertscope.Retries(1)))


WRITING = [
    (("sweep", "--texts", "FILE", "--output"), ".tsv"),
    (("sweep", "--texts", "FILE", "--plot"), ".png"),
    (("rank", "--texts", "FILE", "--plot"), ".png"),
    (("benchmark", "--model", "m", "--output"), ".html"),
    (("benchmark", "--model", "m", "--model", "n", "--agreement", "FILE", "--plot"), ".png"),
    (("benchmark", "studies", "--output"), ".csv"),
    (("study", "capitals", "--output"), ".html"),
    (("study", "dark-secrets", "--data", "FOLDER", "--output"), ".html"),
    (("primer", "--output"), ".html"),
    (("trace", "a", "b", "--answers", "is,are", "--output"), ".tsv"),
    (("trace", "a", "b", "--answers", "is,are", "--plot"), ".png"),
    (("probe", "FILE", "--keep"), ".npz"),
    (("erase", "FILE", "--save"), ".npz"),
    (("codes", "train", "FILE", "--layer", "1", "--save"), ".safetensors"),
    (("lens", "train", "FILE", "--keep"), ".npz"),
    (("geometry", "--texts", "FILE", "--word", "a", "--word-output"), ".csv"),
    (("relations", "FILE", "--summary"), ".csv"),
    (("score", "pairs", "FILE", "--errors-output"), ".csv"),
    (("attention", "describe", "--texts", "FILE", "--output"), ".csv"),
    (("states", "--texts", "FILE", "--output"), ".parquet"),
]


NAMES = {"no-such/x{}": "there is no folder", "x" * 300 + "{}": "can't be written", "x.docx": ".docx"}


@pytest.mark.parametrize(
    ("arguments", "suffix"), WRITING, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_file_that_cant_be_written_is_told_before_anything_is_measured(capsys, tmp_path, arguments, suffix):
    (tmp_path / "file.txt").write_text("one\n")
    given = [{"FILE": str(tmp_path / "file.txt"), "FOLDER": str(tmp_path)}.get(part, part) for part in arguments]
    for name, says in NAMES.items():
        code, error = fails(capsys, *given, str(tmp_path / name.format(suffix)), *NOBODY)
        assert (code, says in error) == (2, True), error
        assert f"{arguments[-1]} " in error
        assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_options_may_be_repeated_where_they_hold_several_values_or_none(capsys, asked_once):
    for arguments in (("fill", "x", "--zero", "0:1", "--zero", "0:2"), ("score", "x", "--json", "--json")):
        code, error = fails(capsys, *arguments, *NOBODY)
        assert "no server listens" in error, (code, error)
    code, error = fails(capsys, "fill", *NOBODY, "--", "--model", "--model")  # These are texts.
    assert "no server listens" in error, (code, error)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        *(
            (command, "did you mean --texts a.tsv")
            for command in ("cka", "geometry", "score", "attention describe", "states", "fill")
        ),
        *((command, "did you mean --texts a.tsv") for command in ("classify", "tag", "predict")),
        ("lens", "and TEXT takes a text: write the text itself"),
        ("answer", "did you mean --questions a.tsv"),
    ],
)
def test_a_file_is_no_text(capsys, monkeypatch, asked_once, tmp_path, command, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("text\n")
    (tmp_path / "cat").write_text("a word that is a name")
    for texts in (("a.tsv",), ("A cat.", "a.tsv")) if command != "lens" else (("a.tsv",),):
        code, error = fails(capsys, *command.split(), *texts, *NOBODY)
        assert (code, "a.tsv is a file" in error, says in error) == (2, True, True), error
    code, error = fails(capsys, *command.split(), "cat", *NOBODY)
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


WRONG = Path(__file__).with_name("wrong_use.txt").read_text(encoding="utf-8")
FILES = {
    "P36.jsonl": '{"sub_label": "France", "obj_label": "Paris"}\n',
    "p.tsv": "text\tanswer\na [MASK]\tb\n",
    "in.tsv": "text\na [MASK]\n",
    "one.txt": "a ||| b\n",
    "gold": "0-0\n0-0\n",
    "secret.token": "token-of-nobody-else",
    "x.conllu": TREE,
    "x.jsonl": '{"text": "a b", "pairs": [["r", 0, 1]]}\n',
}


def test_wrong_use_is_one_line_and_is_told_before_the_server_is_asked(capsys, monkeypatch, tmp_path, stored):
    monkeypatch.setenv("BERTSCOPE_TARGET", NOBODY[1])
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_text(content, encoding="utf-8")
    said = []
    for line in WRONG.splitlines():
        code = run(shlex.split(line))
        captured = capsys.readouterr()
        assert (captured.out, captured.err.count("\n"), code in (1, 2)) == ("", 1, True), line
        assert captured.err.startswith("bertscope: ")
        assert "no server listens" not in captured.err and FILES["secret.token"] not in captured.err
        said.append(f"$ {line}\n{code} {captured.err}")
    stored(said="".join(said))


def test_without_the_server_or_matplotlib_commands_say_what_to_install(capsys, monkeypatch, stored):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = []
    for line in (
        "serve",
        "serve --port 1",
        "serve --help",
        "demo",
        "sweep --texts a.txt --plot a.png",
        "study dark-secrets --data . --output page.html",
    ):
        assert run(line.split()) == 1
        said.append(f"$ {line}\n{capsys.readouterr().err}")
    stored(said="".join(said))


def test_how_values_are_written(stored):
    def each(option, reads, *values):
        return {value: outcome(lambda value=value: groups.read(option, reads, value)) for value in values}

    heads = specifications.head_interventions(["3:1,4", "0"], ["5"], ["2:0=-0.5", "1=2"], ["3:1", "2"])
    described = [specifications.describe(intervention) for intervention in heads]
    assert [eval(f"bertscope.{text}", {"bertscope": bertscope}) for text in described] == heads
    stored(
        numbers=each("--layer", specifications.numbers, "1, 2", "0", "", "1,", "a", "-1", "1.5", "²"),
        interventions=described,
        heads=each(
            "--set",
            specifications.head_set,
            "3:1,4+5:0+2",
            "",
            "3:",
            "3:1+",
            "3:1;4",
            "3:1+3:2",
            "a:1",
            "-1",
        ),
        joined=specifications.all_heads(map(specifications.head_set, ["3:4", "5", "3:1,4", "5:2", "0:1+1"])),
        columns=each("--columns", specifications.columns, "a=b c, label=a=b", "text", "=a", "text=", "text=a,"),
        bytes=each(
            *("--memory", specifications.byte_count),
            *("4096", "256MiB", "1.5 GB", "8 kB", "", "MiB", "256 mib", "-1", "1e9", "1,5GB"),
        ),
        counts=[output.count(value, "B") for value in (0, 999, 1000, 22_713_216, 3.4e12)],
        bars=[output.bar(share).plain for share in (0, 0.01, 0.5, 1)],
    )


FAILURES = [
    "fill: texts[3] has 600 tokens and m reads 512; shorten it, or set truncate",
    "fill: top_k: must be at least 1",
    "fill: candidates[2] 'set truncate' is no entry (candidates[2]: 'set truncate' is no entry)",
    "fill: token: would travel to h:1 in clear text; use TLS, or insecure_token where something else encrypts",
    "fill: it may ask for the caller's certificate: tls=bertscope.Tls(certificate=..., key=...)",
    "fill: a.csv exists; go on with it by resume=True, or write to another file",
    "fill: interventions[0].layer: layer 99 is out of range",
    "fill: layers[0]: is of no option here, as model.layers is not",
    "attention maps: layers[0]: layer 9 is out of range (layers[0]: layer 9 is out of range)",
    "find: heads.heads[1].layer: layer 99 is out of range",
    "relations heads: pairs[0].target is 7; activations.layers[0].model is none",
    "find: activations.layers[0].units[2]: neuron 9999 is out of range",
    "find: directions[0].vector: has 3 numbers",
    "geometry neighbours: words[0]: is a word of no text",
    "sweep: objective.cloze.skip_multi_piece leaves these out",
    "sweep: greedy.max_removed is 0; greedy.order is unknown",
    "benchmark models: measurement.lengths[1] is 600; use 1 to 512",
    "benchmark models: measurement.bootstrap.confidence is 2; use 0.5",
    "attention compare: other_model: m is compared with itself; name another model in other_model, or send interventions",
]


def test_failures_speak_of_options(stored):
    """The options are those of the command that runs: "layers" is --layer, and no option of a command without layers."""
    said = {}
    for line, message in (line.split(": ", 1) for line in FAILURES):
        command = GROUP
        for word in line.split():
            command = command.commands[word]
        before = filled.set(command.callback.options)
        try:
            said[f"{line}: {message}"] = in_options(message)
            assert in_options(in_options(message)) == in_options(message)
        finally:
            filled.reset(before)
    stored(said=said)


def test_models_of_pairs_differ_from_the_first_one_in_one_table(stored) -> None:
    first, other = comparison("rrrrrrrw"), comparison("rrwwwwwr", model="models/other")
    stored(
        printed=printed(print_models, {"fake": first, "other": other}, width=140),
        columns=score_pairs.summary_columns(other, first, {"kind": ["x"] * 8}),
        joined=side_by_side({"a": {"x": np.array([1, 2])}, "b": {"x": [3], "y": ["z"]}}),
    )


@pytest.fixture
def log(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(progress, "console", lambda stderr: Console(file=file, markup=False, highlight=False, width=160))
    return file


def test_without_a_terminal_there_is_a_line_now_and_then(log, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    with progress.studying() as show:
        show("training [1]", 3, 10)
        wait_until(lambda: "training [1], 3 of 10, 0:00:0" in log.getvalue(), "a stage is told")
        show("scoring", 5, None)
        wait_until(lambda: "scoring, 5 done, 0:00:0" in log.getvalue(), "the next stage is told")
    with progress.waiting("reading"):
        wait_until(lambda: "reading, 0:00:0" in log.getvalue(), "what has no number is told")
    with progress.benchmarking("measuring"):
        wait_until(lambda: "measuring, 0 %, 0:00:0" in log.getvalue(), "a share is told")
    assert "\x1b" not in log.getvalue()
