"""Writes structured logs: one line each, as text for people or JSON for machines, never with texts of users."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

from bertscope_service.observability import grpc_log

logger = logging.getLogger(__name__)

SUMMARY_SECONDS = 1.0

OWN = "bertscope_service."
"""The prefix of our modules' loggers; messages of the logger of calls, and of libraries, may quote users' input."""

LIBRARIES = ("transformers", "huggingface_hub", "torch")

FIELDS = ("method", "code", "milliseconds", "reason", "model", "peer", "client", "request_id", "trace_id")


class TextFormatter(logging.Formatter):
    """Formats lines such as: 2026-01-31T12:00:00.000Z INFO request method=FillMask code=OK milliseconds=3.1 request_id=..."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname} {_message(record)}{fields}"
        return f"{line}\n{_trace(record)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """Formats one JSON object per line: time, level, logger, message, fields, and the trace of an error."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        line |= _fields(record)
        if record.exc_info:
            line["trace"] = _trace(record)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(log_format: str, level: str) -> None:
    """Sends our logs to standard error; libraries log only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    grpc_log.log_filter.install()
    logging.captureWarnings(True)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("bertscope", "bertscope_service"):
        logging.getLogger(name).setLevel(level.upper())


def adopt_libraries() -> None:
    """Sends the messages of imported libraries the way of ours: theirs on standard error would be no JSON. Their loggers get
    handlers of their own when they are imported."""
    for name in LIBRARIES:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True


def log_call(calls: logging.Logger, level: int, fields: Mapping[str, object]) -> None:
    """Logs the line of a call: its fields without the empty ones. It omits what `Logger.log` finds out about the line of code,
    which would take longer than all the rest."""
    record = logging.LogRecord(calls.name, level, __file__, 0, "request", None, None)
    record.__dict__.update({name: value for name, value in fields.items() if value})
    calls.handle(record)


class Tally:
    """Logs how often an event happened, by name, in one line for each second in which it did: there may be thousands."""

    def __init__(self, line: str) -> None:
        """`line` describes the event."""
        self._line = line
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        """Counts an event. On the event loop."""
        if not self._counts:
            asyncio.get_running_loop().call_later(SUMMARY_SECONDS, self._log)
        self._counts[name] += 1

    def _log(self) -> None:
        counted = ", ".join(f"{name} {count}" for name, count in self._counts.most_common())
        logger.warning("%s within %g s: %s", self._line, SUMMARY_SECONDS, counted)
        self._counts.clear()


def _fields(record: logging.LogRecord) -> dict[str, object]:
    known = record.__dict__
    return {name: known[name] for name in FIELDS if name in known}


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    # Below its first line asyncio shows the failed task, with the error's message.
    return message.partition("\n")[0] if record.name == "asyncio" else message


def _trace(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    if record.name.startswith(OWN) or error is None:
        return logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
    return frames(error)


def frames(error: BaseException) -> str:
    """Returns the trace of an error and its causes, without their messages: if it ended a call, they may quote a text."""
    chain = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    parts = [f"{''.join(traceback.format_tb(one.__traceback__))}{type(one).__name__}" for one in reversed(chain)]
    return "\n".join(["Traceback (most recent call last):", *parts])


def _time(record: logging.LogRecord) -> str:
    second = int(record.created)
    return f"{_second(second)}.{int(1000 * (record.created - second)):03d}Z"


@lru_cache(maxsize=1)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
