"""Logs are one line each, for people or for machines."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from bertscope_service.observability.logs import JsonFormatter, TextFormatter, configure


def record(message: str, *arguments: object, name: str = "bertscope.requests", **fields: object) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.INFO, __file__, 1, message, arguments, None)
    made.created = 1_767_268_800.1239
    vars(made).update(fields)
    return made


def test_text_is_time_level_message_and_fields() -> None:
    line = TextFormatter().format(record("request", method="FillMask", code="OK", milliseconds=3.1, request_id="abc"))
    assert line == "2026-01-01T12:00:00.123Z INFO request method=FillMask code=OK milliseconds=3.1 request_id=abc"


def test_json_has_the_same_in_one_object() -> None:
    line = JsonFormatter().format(record("%d models", 3, method="é", other="left out"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2026-01-01T12:00:00.123Z",
        "level": "INFO",
        "logger": "bertscope.requests",
        "message": "3 models",
        "method": "é",
    }


def test_text_shows_the_trace_below() -> None:
    made = record("failed", name="bertscope_service.models.runtimes", request_id="abc")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    first, *trace = TextFormatter().format(made).splitlines()
    assert first.endswith("failed request_id=abc")
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "ValueError: why"


@pytest.mark.parametrize(
    ("logger", "message", "shown"),
    [
        ("bertscope.requests", "FillMask failed", "FillMask failed"),
        ("asyncio", "Task exception was never retrieved\nfuture: <Task exception=ValueError('CANARY')>", "never retrieved"),
    ],
    ids=["a call", "a task that failed unseen"],
)
def test_the_trace_of_a_call_has_the_errors_without_their_words(logger: str, message: str, shown: str) -> None:
    made, written = record(message, name=logger), "canary".upper()
    try:
        try:
            raise KeyError(written)
        except KeyError as error:
            raise ValueError(f"can't read {written}") from error
    except ValueError:
        made.exc_info = sys.exc_info()
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(made)
        assert written not in line
        assert shown in line
        assert "test_logs.py" in line
        assert line.rindex("KeyError") < line.rindex("ValueError")


@pytest.fixture
def restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "bertscope", "bertscope_service")]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.mark.parametrize(("log_format", "formatter"), [("text", TextFormatter), ("json", JsonFormatter)])
@pytest.mark.usefixtures("restored")
def test_libraries_only_speak_up_from_warnings_on(log_format: str, formatter: type, capsys: pytest.CaptureFixture[str]) -> None:
    configure(log_format, "debug")
    logging.getLogger("bertscope_service.rpc.server").debug("ours")
    logging.getLogger("some.library").info("not wanted")
    logging.getLogger("some.library").warning("wanted")
    assert isinstance(logging.getLogger().handlers[0].formatter, formatter)
    out, err = capsys.readouterr()
    assert not out
    assert "ours" in err
    assert "not wanted" not in err
    assert err.count("\n") == 2


@pytest.mark.usefixtures("restored")
def test_the_level_is_for_our_own_loggers(capsys: pytest.CaptureFixture[str]) -> None:
    configure("text", "error")
    logging.getLogger("bertscope.requests").warning("not wanted")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("restored")
def test_metadata_that_grpc_cannot_decode_is_not_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    """One of them may be a token."""
    configure("text", "debug")
    logger = logging.getLogger("grpc._cython.cygrpc")
    logger.error("Invalid encoding on %s", b"Bearer \xffsecret")
    logger.error("something else")
    err = capsys.readouterr().err
    assert "secret" not in err
    assert "something else" in err
