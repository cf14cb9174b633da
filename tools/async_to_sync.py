"""Generates the synchronous client from the asynchronous one, or checks that it is fresh.

    python -m tools.async_to_sync           writes client/bertscope/client/
    python -m tools.async_to_sync --check   exits with 1, naming the files, if what is committed is not what would be written

Sources are the calls of the questions (`questions/ROOM/calls.py` becomes `client/ROOM.py`, `questions/ROOM/PART_calls.py`
`client/ROOM_PART.py`), what they share (`rpc/async_NAME.py` becomes `client/NAME.py`), and `aio.py`, which becomes
`client/__init__.py`.

The generator drops `async` and `await` and renames: `AsyncX` becomes `X`, and a few names of the language and of the client
become those in `NAMES`. Code in comments and docstrings is renamed in the same way, and `PHRASES` are replaced. A comment
`# sync: LINE` becomes the line. Code that differs in more than names is written by hand in `bertscope.rpc.tasks` and
`bertscope.rpc.threads`, which have the same names.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import sysconfig
import tokenize
from functools import cache
from pathlib import Path

from tools.generated_files import ROOT, run

CLIENT = ROOT / "client" / "bertscope"
TARGET = CLIENT / "client"

NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "aclose": "close",
    "aclosing": "closing",
    "anext": "next",
    "ended": "summary",
    "started": "start",
    "tasks": "threads",
}
PHRASES = {
    "The client for asyncio. `bertscope.client`, the one for threads and scripts, is generated from it.": (
        "The client for threads and scripts."
    ),
    "the tasks of one event loop": "many threads at once",
    "\n        It may be made outside the event loop, and belongs to the loop of its first call.": "",
}
"""Sentences of docstrings that are true of the asynchronous client alone, and their replacements."""

HEADER = "# Generated from bertscope/{name}. Do not edit: change that file, and run `make client`.\n"


def synchronous(source: str) -> str:
    """Returns the synchronous form of a module."""
    source = re.sub(r"(?m)^( *from )(bertscope\.\S+)(?= import)", lambda line: line[1] + module(line[2]), source)
    lines = [0, *(place.end() for place in re.finditer("\n", source))]
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    edits: list[tuple[int, int, str]] = []
    for index, token in enumerate(tokens):
        start, end = (lines[row - 1] + column for row, column in (token.start, token.end))
        text = token.string
        if token.type == tokenize.NAME and text in ("async", "await"):
            edits.append((start, end + 1, ""))
        elif token.type == tokenize.NAME:
            edits.append((start, end, name(text)))
            if text == "AsyncGenerator" and tokens[index + 1].string == "[":
                bracket = closing_bracket(tokens, index + 1)
                place = lines[bracket.start[0] - 1] + bracket.start[1]
                edits.append((place, place, ", None"))  # a generator's return type, which an asynchronous one lacks
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            named = module(text[1:-1]) if text.startswith('"bertscope.') else text[1:-1]
            edits.append((start, end, words(text) if named == text[1:-1] else f'"{named}"'))
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def module(source: str) -> str:
    """Returns the name of the module that an asynchronous one becomes; of any other, its own."""
    path = CLIENT.parent / f"{source.replace('.', '/')}.py"
    if path not in sources():
        return source
    return f"bertscope.client.{target(path).stem}" if source != "bertscope.aio" else "bertscope.client"


@cache
def sources() -> tuple[Path, ...]:
    """Returns the modules of the asynchronous client."""
    calls = [*CLIENT.glob("questions/*/*calls.py"), *CLIENT.glob("rpc/async_*.py")]
    return (CLIENT / "aio.py", CLIENT / "questions" / "calls.py", *sorted(calls))


def target(source: Path) -> Path:
    """Returns where the synchronous form of a module lies."""
    if source == CLIENT / "aio.py":
        return TARGET / "__init__.py"
    if source.parent.parent != CLIENT / "questions":
        return TARGET / source.name.removeprefix("async_")
    part = source.stem.removesuffix("calls").removesuffix("_")
    return TARGET / f"{source.parent.name}{part and '_'}{part}.py"


def name(text: str) -> str:
    """Returns the name of the same thing in the synchronous client."""
    return NAMES.get(text) or re.sub(r"^Async(?=[A-Z])", "", text)


def words(text: str) -> str:
    """Returns a comment or a string, with the code in it renamed."""
    for phrase, other in PHRASES.items():
        text = text.replace(phrase, other)
    text = re.sub(r"^# sync: ", "", text)
    text = re.sub(r"\bAsync[A-Z]\w*", lambda word: name(word[0]), text)
    return re.sub(r"`[^`]*`|^ *(>>>|\.\.\.) .*", lambda code: renamed(code[0]), text, flags=re.MULTILINE)


def renamed(code: str) -> str:
    """Returns renamed code of a comment or a string."""
    return re.sub(r"\w+", lambda word: name(word[0]), re.sub(r"\b(async|await) ", "", code))


def closing_bracket(tokens: list[tokenize.TokenInfo], opening: int) -> tokenize.TokenInfo:
    """Returns the bracket that closes the one at an index."""
    depth = 0
    for token in tokens[opening:]:
        depth += {"[": 1, "]": -1}.get(token.string, 0)
        if depth == 0:
            return token
    raise ValueError("a bracket is not closed")


def formatted(source: str, path: Path, also: str = "") -> str:
    """Returns a module as `ruff` formats it at its path, its imports and public names in order, mended by one more rule."""
    ruff = str(Path(sysconfig.get_path("scripts")) / "ruff")
    for arguments in (["check", f"--select=I,RUF022,{also}".rstrip(","), "--fix", "--quiet"], ["format", "--quiet"]):
        command = [ruff, *arguments, f"--stdin-filename={path}", "-"]
        source = subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return source


def generated() -> dict[Path, str]:
    """Returns every module of the synchronous client, by its path."""
    return {
        target(path): HEADER.format(name=path.relative_to(CLIENT).as_posix())
        + formatted(synchronous(path.read_text(encoding="utf-8")), target(path))
        for path in sources()
    }


def main() -> int:
    """Runs the command and returns the exit code."""
    return run(__doc__, generated, "its source makes", TARGET.glob("*.py"))


if __name__ == "__main__":
    sys.exit(main())
