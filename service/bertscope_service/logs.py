"""Structured logs: one line each, as text for people or JSON for machines; never a word of what users sent."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

OWN = "bertscope_service."
"""How the loggers of our modules begin; that of calls, and those of libraries, may have to do with what users sent."""

FIELDS = ("method", "code", "milliseconds", "client", "request_id", "trace_id")


class TextFormatter(logging.Formatter):
    """2026-01-31T12:00:00.000Z INFO request method=FillMask code=OK milliseconds=3.1 request_id=..."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname} {_message(record)}{fields}"
        return f"{line}\n{_trace(record)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, fields, and the trace of an error."""

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
    """Send our logs to standard error; libraries only speak up from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(tells_no_metadata)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("bertscope", "bertscope_service"):
        logging.getLogger(name).setLevel(level.upper())


def tells_no_metadata(record: logging.LogRecord) -> bool:
    """False for gRPC's line about metadata that is no UTF-8: it quotes them, and they may be a token. Whoever reaches the port
    could fill the log with it, too."""
    return not (record.name.startswith("grpc.") and record.msg == "Invalid encoding on %s")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    # Below its first line asyncio shows the task that failed, and in it the error with its words.
    return message.partition("\n")[0] if record.name == "asyncio" else message


def _trace(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    if record.name.startswith(OWN) or error is None:
        return logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
    return frames(error)


def frames(error: BaseException) -> str:
    """The trace of an error and those that it came from, without their own words: if it ended a call, they may quote a text."""
    chain = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    parts = [f"{''.join(traceback.format_tb(one.__traceback__))}{type(one).__name__}" for one in reversed(chain)]
    return "\n".join(["Traceback (most recent call last):", *parts])


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
