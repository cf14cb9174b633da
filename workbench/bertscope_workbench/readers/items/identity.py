"""Tells runs apart: the columns of a row that say where it comes from, and the difference between two runs. Pure."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, is_dataclass
from functools import partial
from typing import Any

from bertscope import Provenance

from bertscope_workbench.readers.items.formats import plain

LONGEST_PLAIN = 80
"""Characters of an option that are written; of a longer one, its digest is."""
NOT_OPTIONS = ("model", "timeout", "on_rejected", "on_progress")
"""Arguments that do not change what an answer says, or that rows name by themselves."""
VALUES = {
    "model": ("the model", "ask that model"),
    "weights": ("the digest of the weights", "ask a server with these weights"),
    "runtime": ("the runtime", "ask a server that runs the model so"),
    "precision": ("the precision", "ask a server that runs the model so"),
    "bertscope": ("bertscope's version", "use that version"),
}
"""Columns of one value: its name, and how to make it the same."""
OBJECTS = {
    "options": ("give the same options", "the option {}", "give the same {}"),
    "versions": ("ask a server with these versions", "the server's version of {}", "ask a server with that version"),
}
"""Columns of several entries: how to make all the same, the name of one, and how to make it the same."""


def provenance_columns(source: Provenance) -> dict[str, Any]:
    """Returns the columns that say where a row comes from, without the options."""
    return {
        "model": source.model,
        "weights": source.weights_digest,
        "runtime": source.runtime,
        "precision": source.precision,
        "versions": json.dumps(dict(sorted(source.library_versions.items()))),
    }


def question(ask: Callable[..., Any]) -> str:
    """Returns the name of a question: "fill_mask" for `client.fill_mask_stream`."""
    method = ask.func if isinstance(ask, partial) else ask
    return str(getattr(method, "__name__", type(method).__name__)).removesuffix("_stream")


def options_text(options: Mapping[str, Any]) -> str:
    """Returns options in one line of JSON, in the order of their names; long ones as digests."""
    return json.dumps(
        {name: _short(_plain_option(value)) for name, value in sorted(options.items()) if _counts(name, value)},
        ensure_ascii=False,
    )


def _plain_option(value: Any) -> Any:
    """Returns an option in JSON's types."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)):
        return [_plain_option(each) for each in value]
    return plain(value)


def _counts(name: str, value: Any) -> bool:
    return name not in NOT_OPTIONS and value is not None and value is not False and value != () and value != []


def _short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(text) <= LONGEST_PLAIN:
        return value
    count = f"{len(value)}, " if isinstance(value, list) else ""
    return f"{count}sha256:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def difference(column: str, was: Any, now: Any) -> tuple[str, str]:
    """Returns how two runs differ in a column that says where rows come from, and how to remove the difference."""
    if column not in OBJECTS:
        name, remedy = VALUES[column]
        return f"{name} was {was} and is {now} now", remedy
    all_same, entry, one_same = OBJECTS[column]
    found = _difference(str(was), now)
    if found is None:
        return f"its {column} are {str(was)!r}", all_same
    name, one, other = found
    return f"{entry.format(name)} was {one} and is {other} now", one_same.format(name)


def _difference(was: str, now: str) -> tuple[str, str, str] | None:
    """Returns the first name whose values two objects of JSON do not share, and both values; None if there is none."""
    try:
        before, after = json.loads(was), json.loads(now)
        name = next(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))
    except (ValueError, TypeError, AttributeError, StopIteration):
        return None
    one, other = (json.dumps(each.get(name), ensure_ascii=False) for each in (before, after))
    return name, one, other
