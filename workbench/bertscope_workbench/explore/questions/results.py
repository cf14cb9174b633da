"""The question of the Results view: a file that the command wrote, read for the page."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path, PurePath

from bertscope import AsyncClient
from bertscope.errors import invalid_argument

from bertscope_workbench.explore import result_files
from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.result_files.limits import MEMORY, PROCESSOR_SECONDS
from bertscope_workbench.explore.result_files.readers import READERS
from bertscope_workbench.explore.streams import Event

_START = "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module('result_files', run_name='__main__')"
READER = (sys.executable, "-c", _START, str(Path(result_files.__file__).parents[1]))
"""The command that reads a file. It gets the end of its name as an argument, and the file on standard input."""
LIGHT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Libraries that reserve address space ahead would take it of the reader's limit."""


async def results(_: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Reads a file's bytes (`data`, base64) by the end of its `name`: .json, .jsonl, .csv, .tsv or .parquet.

    Yields the events of `result_files.drawings.events_of`. They are made by a process of their own, which is killed when nobody
    waits for it: whatever a file holds, the page goes on answering.
    """
    name, data = body.text("name"), body.text("data")
    body.done()
    suffix = PurePath(name).suffix.lower()
    if suffix not in READERS:
        raise invalid_argument("name", f"must end with {', '.join(READERS)}")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid_argument("data", "must be base64") from error
    for line in (await _read(suffix, raw)).splitlines():
        event: Event = json.loads(line)
        if "wrong" in event:
            raise invalid_argument("data", event["wrong"])
        yield event


async def _read(suffix: str, raw: bytes) -> bytes:
    process = _begin(suffix)
    try:
        said, trace = await asyncio.to_thread(process.communicate, raw)
    finally:
        process.kill()  # does nothing if it has ended
    ended = process.returncode
    if ended > 0:
        raise RuntimeError(f"the reader of results failed: {trace.decode(errors='replace')}")
    if ended < 0:  # A signal: that of the limit of time, or of a library that can't go on without memory.
        raise invalid_argument(
            "data", f"takes more than {MEMORY} or {PROCESSOR_SECONDS} s of processor time to read; take a part of it"
        )
    return said


def _begin(suffix: str) -> subprocess.Popen[bytes]:
    """Starts a reader. Not by the event loop: uvloop runs Python in the forked child, which beside other threads may crash."""
    return subprocess.Popen(
        [*READER, suffix],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | LIGHT,
        start_new_session=True,  # Ctrl-C is for the page, which ends its readers.
    )
