"""`bertscope serve`, also as `python -m bertscope_service`."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import CliApp, SettingsError

from bertscope_service import process
from bertscope_service.settings import Settings, unknown_variables

LEAVE_SECONDS = 3.0
"""Time for threads at work to end after the server has stopped. Python would wait for them without limit, and one that reads a
model from a disk that does not answer, or exports one, can't be interrupted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a server until SIGTERM or SIGINT; the exit status. 2: wrong flags; 1: it could not begin, the reason in one line."""
    try:
        settings = CliApp.run(Settings, cli_args=list(sys.argv[1:] if argv is None else argv))
    except ValidationError as error:
        for problem in error.errors():
            print(f"bertscope serve: {_describe(problem)}", file=sys.stderr)
        return 2
    except SettingsError as error:
        print(
            f"bertscope serve: {str(error).removeprefix('error parsing CLI: ')} (try: bertscope serve --help)", file=sys.stderr
        )
        return 2
    process.prepare()
    # Only now: these take seconds to import, and a wrong flag should be told at once.
    from bertscope_service import logs

    logs.configure(settings.log_format, settings.log_level)
    if unknown := unknown_variables(os.environ):
        logging.getLogger(__name__).warning(
            "of no effect in the environment, for no setting has that name: %s", ", ".join(unknown)
        )
    return asyncio.run(_serve(settings))


def _describe(problem: ErrorDetails) -> str:
    said = problem["msg"].removeprefix("Value error, ")
    if not problem["loc"]:  # of several flags, which it names itself
        return said
    name = "-".join(str(part) for part in problem["loc"]).replace("_", "-")
    return f"--{name}: {said}, got {problem['input']!r}"


async def _serve(settings: Settings) -> int:
    """Run the server; the process ends soon after it, whatever its threads do."""
    from bertscope_service.errors import ServiceError
    from bertscope_service.scratch import clear_remains
    from bertscope_service.server import serve

    clear_remains()
    status = 0
    # What was imported stays, some 450,000 objects that the collector would look through for half a second each time. Models
    # come later, for they may go.
    gc.freeze()
    try:
        await serve(settings)
    except (ServiceError, OSError) as error:
        print(f"bertscope serve: {error}", file=sys.stderr, flush=True)
        status = 1
    finally:
        gc.unfreeze()  # or libraries would write that objects of theirs leaked
    leaving = threading.Timer(LEAVE_SECONDS, os._exit, (status,))
    leaving.daemon = True
    leaving.start()
    return status


if __name__ == "__main__":
    sys.exit(main())
