"""Flags win over variables, variables over defaults, and a wrong one is told in a line, at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bertscope_service.__main__ import main
from bertscope_service.settings import Settings, unknown_variables
from pydantic_settings import CliApp

from tests.support.patience import granted


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("BERTSCOPE_")]:
        monkeypatch.delenv(name)


def parsed(*flags: str) -> Settings:
    return CliApp.run(Settings, cli_args=list(flags))


def written(folder: Path, text: str) -> str:
    path = folder / "bertscope.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_flag_over_variable_over_file_over_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, 'port = 1\nmax_calls = 2\nmax_texts = 3\nmodel = ["a=x/y", "b"]\nchannelz = true\n')
    monkeypatch.setenv("BERTSCOPE_MAX_CALLS", "20")
    settings = parsed("--config", file, "--port", "10")
    assert (settings.port, settings.max_calls, settings.max_texts, settings.max_candidates) == (10, 20, 3, 1000)
    assert (settings.model, settings.channelz) == (["a=x/y", "b"], True)
    monkeypatch.setenv("BERTSCOPE_CONFIG", file)
    assert (parsed().port, parsed("--model", "c").model, unknown_variables(os.environ)) == (1, ["c"], [])
    assert parsed("--config", written(tmp_path, "\ufeffmax_texts = 4\n")).max_texts == 4


WRONG_FILES = [
    ("max_cals = 1", "no setting is called max_cals; max_calls is meant?"),
    ("max-calls = 1", "no setting is called max-calls; max_calls is meant?"),
    ("[server]\nport = 1", "no setting is called server; bertscope serve --help lists them"),
    ("port = 70000", "port: Input should be less than or equal to 65535, got 70000"),
    ('model = "a,b"', "model: Input should be a valid list, got 'a,b'"),
    ('config = "other.toml"', "a file can't name another one; remove the key config"),
    ("max_calls = true", "max_calls: must be no boolean, got true"),
    ("channelz = 1", "channelz: must be true or false, got 1"),
    ("port = ", "is not TOML: Invalid value"),
    (None, "No such file or directory"),
]


@pytest.mark.parametrize(("text", "said"), WRONG_FILES)
def test_a_wrong_file_is_refused_with_its_name_and_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    file = str(tmp_path / "none.toml") if text is None else written(tmp_path, text)
    assert main(["--config", file]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"bertscope serve: --config {file}") and said in told


def test_an_unknown_flag_and_every_wrong_key_of_a_file_get_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--prot", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--prot" in line
    assert main(["--config", written(tmp_path, "prt = 1\nthreads = -1\nmax_calls = 2\n")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_file_and_flags_are_checked_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", written(tmp_path, 'tls_key = "key.pem"')]) == 2
    assert "belong together" in capsys.readouterr().err


WRONG = [
    ("--port", "70000"),
    ("--port", "-1"),
    ("--metrics-port", "x"),
    ("--max-texts", "0"),
    ("--queue-tokens", "-5"),
    ("--threads", "-1"),
    ("--grace-seconds", "-0.1"),
    ("--grace-seconds", "nan"),
    ("--queue-seconds", "0"),
    ("--client-identity", "name"),
    ("--max-calls", "-1"),
    ("--max-client-calls", "x"),
    ("--keepalive-timeout-seconds", "0"),
    ("--max-connection-age-seconds", "3000000"),
    ("--min-ping-seconds", "nan"),
    ("--precision", "fp64"),
    ("--log-format", "xml"),
    ("--log-level", "loud"),
    ("--model-root", "~nobody-of-that-name/models"),
]


@pytest.mark.parametrize(("flag", "value"), WRONG)
def test_a_wrong_flag_is_one_line_that_names_it_and_its_value(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"{flag}={value}"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert err.startswith(f"bertscope serve: {flag}: ")
    assert repr(value) in err or err.rstrip().endswith("nan")


def test_a_wrong_variable_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BERTSCOPE_MAX_TEXTS", "many")
    assert main([]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "max-texts" in err


def test_variables_that_are_no_settings_are_told_with_what_may_be_meant() -> None:
    meant = ["BERTSCOPE_TOKEN_FILES", "BERTSCOPE_TOKENSFILE", "BERTSCOPE_SERVICE_HOST"]
    known = ["PATH", "bertscope_tokens_file", "BERTSCOPE_QUEUE_TOKENS", "BERTSCOPE_TOKEN_FILE"]
    assert unknown_variables([*known, *meant]) == [
        "BERTSCOPE_SERVICE_HOST",
        "BERTSCOPE_TOKENSFILE (BERTSCOPE_TOKENS_FILE?)",
        "BERTSCOPE_TOKEN_FILES (BERTSCOPE_TOKENS_FILE?)",
    ]


def test_a_wrong_flag_does_not_wait_for_torch() -> None:
    code = (
        "import sys\nfrom bertscope_service.__main__ import main\nstatus = main(['--port', '70000'])\n"
        "assert not {'torch', 'transformers', 'grpc'} & set(sys.modules), 'imported too much'\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=granted(60), check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1


def test_every_setting_is_explained_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in text
        assert field.description
        assert field.description.split()[0] in text


def test_metrics_are_served_on_the_host_of_grpc_unless_they_have_their_own() -> None:
    assert (parsed().address, parsed().metrics_address) == (("127.0.0.1", 50051), ("127.0.0.1", 9464))
    settings = Settings(host="0.0.0.0", port=1, metrics_port=2)
    assert (settings.address, settings.metrics_address) == (("0.0.0.0", 1), ("0.0.0.0", 2))
    assert Settings(host="0.0.0.0", metrics_host="::1", metrics_port=2).metrics_address == ("::1", 2)
