"""What a server says of its own openness, and settings that contradict each other."""

import logging
from pathlib import Path

import pytest
from bertscope.rpc.credentials import is_loopback_host
from bertscope_service.__main__ import main
from bertscope_service.rpc.access_summary import access_summary
from bertscope_service.settings import Settings

TLS = {"tls_certificate": Path("c"), "tls_key": Path("k")}


def test_loopback_is_only_this_machine() -> None:
    assert all(map(is_loopback_host, ["127.8.9.1", "::1", "localhost"]))
    assert not any(map(is_loopback_host, ["0.0.0.0", "::", "", "10.0.0.1", "localhost.example", "127.0.0.1.example"]))


@pytest.mark.parametrize(
    ("settings", "level", "told"),
    [
        ({}, logging.INFO, ["every process on this machine", "--tokens-file"]),
        ({"host": "0.0.0.0"}, logging.WARNING, ["anyone who can reach 0.0.0.0", "read the texts", "--tls-certificate"]),
        ({"host": "0.0.0.0", **TLS}, logging.WARNING, ["anyone who can reach 0.0.0.0", "--tokens-file or --tls-client-ca"]),
        ({"host": "0.0.0.0", "tokens_file": Path("t")}, logging.WARNING, ["in clear text", "--tls-certificate"]),
        ({"tokens_file": Path("t")}, logging.INFO, ["need a token"]),
        ({"host": "0.0.0.0", "tokens_file": Path("t"), **TLS}, logging.INFO, ["need a token", "TLS"]),
        ({"host": "0.0.0.0", "tls_client_ca": Path("a"), **TLS}, logging.INFO, ["certificate of --tls-client-ca"]),
    ],
)
def test_a_server_says_how_open_it_is(settings: dict[str, object], level: int, told: list[str]) -> None:
    found, line = access_summary(Settings.model_validate(settings))
    assert found == level
    for words in told:
        assert words in line


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--tls-certificate", "c"], "give both"),
        (["--tls-key", "k"], "give both"),
        (["--tls-client-ca", "a"], "needs --tls-certificate"),
    ],
)
def test_half_of_tls_is_told_in_one_line(flags: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags) == 2
    line = capsys.readouterr().err
    assert told in line
    assert line.startswith("bertscope serve: --tls-")
    assert line.count("\n") == 1
