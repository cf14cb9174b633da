"""A program that runs examples of the docs one after another, so that they import everything once.

It reads them as JSON on standard input: each is a list of the words of a `bertscope` command, or the path of a Python script,
with a folder of its own to run in. It writes what each of them printed, and how it failed if it did, as JSON to a file.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

from bertscope_workbench.command.app import run


def ran(example: list[str] | str, folder: str) -> dict[str, str]:
    printed, failed = io.StringIO(), ""
    os.chdir(folder)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            if isinstance(example, str):
                runpy.run_path(example, run_name="__main__")
            elif code := run(example):
                failed = f"exit code {code}"
        except (Exception, SystemExit):  # noqa: BLE001 - whatever an example raises is told
            failed = traceback.format_exc()
    return {"printed": printed.getvalue(), "failed": failed}


if __name__ == "__main__":
    found = [ran(example, folder) for example, folder in json.load(sys.stdin)]
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
