"""Make a token for a caller, and the line for the server's --tokens-file that lets it in.

The token is shown once: the line has only its digest.

Example:

  bertscope token alice --tokens-file tokens
"""

import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Literal

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, option
from bertscope_workbench.command.views.output import Failure, UsageError, console, print_json

TOKEN_BYTES = 32
"""256 random bits can't be guessed, so that a plain digest protects the token."""

NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)


def token(
    name: str = argument("NAME", "Who gets it: letters, digits and . _ @ -, at most 64."),
    role: Literal["read", "admin"] = option(
        "--role", "read: all questions; admin: loading, unloading and writing models, too.", default="read"
    ),
    tokens_file: Path | None = option("--tokens-file FILE", "Add the line to this file, and print nothing but the token."),
    json: options.Json = False,
) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(f"NAME {name!r}: write letters, digits and . _ @ -, at most 64")
    made = secrets.token_urlsafe(TOKEN_BYTES)
    line = f"{name} {role} sha256:{hashlib.sha256(made.encode()).hexdigest()}"
    if tokens_file is not None:
        _append(tokens_file, line)
    if json:
        print_json({"token": made, "line": line})
        return
    screen = console()
    if tokens_file is not None:
        screen.print(made, soft_wrap=True, highlight=False)
        return
    screen.print(f"token, for {name} alone:", style="bold")
    screen.print(made, soft_wrap=True, highlight=False)
    screen.print("line for the server's --tokens-file:", style="bold")
    screen.print(line, soft_wrap=True, highlight=False)


def _append(path: Path, line: str) -> None:
    try:
        with path.open("a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            # In one write, after a last line that may lack its end.
            begin = "" if file.read() in (b"", b"\n") else "\n"
            file.write(f"{begin}{line}\n".encode())
    except OSError as error:
        raise Failure(f"{path} can't be written: {error.strerror}") from error
