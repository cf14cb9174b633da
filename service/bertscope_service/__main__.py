"""`bertscope serve`, also as `bertscope-server` and as `python -m bertscope_service`."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence

from pydantic import ValidationError
from pydantic_settings import CliApp, SettingsError

from bertscope_service.errors import FailedPrecondition, InvalidArgument
from bertscope_service.models.given_sources import require_paths
from bertscope_service.models.gpu_files import check_gpu
from bertscope_service.observability import logs
from bertscope_service.rpc import native_environment as process
from bertscope_service.rpc.addresses import check_free
from bertscope_service.rpc.event_loop import new_event_loop
from bertscope_service.settings import Settings, problem_lines, unknown_variables
from bertscope_service.settings_file import ConfigError

logger = logging.getLogger(__name__)

EXIT_SECONDS = 3.0
"""Time for running threads to end after the server has stopped. Python would wait for them without limit, and one that reads a
model from a disk that does not answer, or exports one, can't be interrupted."""


def program() -> int:
    """Runs the program `bertscope-server`: the server, or with `health` as its first argument a probe of one, with `cache` what
    shows and empties its cache."""
    if sys.argv[1:2] == ["health"]:
        from bertscope_service.health_check import run as probe

        return probe(sys.argv[2:])
    if sys.argv[1:2] == ["cache"]:
        from bertscope_service.cache_command import run as cache

        return cache(sys.argv[2:])
    return run()


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command: `main`, after which the process ends soon, whatever its threads do."""
    return main(argv, ended=_exit_soon, overdue=_exit_now)


def main(
    argv: Sequence[str] | None = None,
    *,
    ended: Callable[[int], None] = lambda _: None,
    overdue: Callable[[], None] = lambda: None,
) -> int:
    """Runs a server until SIGTERM or SIGINT. Returns the exit status: 2 for wrong flags, 1 if it could not start.

    `ended` gets the status as soon as the server has stopped, while its threads may still run. Without it this waits for
    them, and the process continues. `overdue` is called in another thread if the stop itself hangs.
    """
    began = time.monotonic()
    try:
        settings = CliApp.run(Settings, cli_args=list(sys.argv[1:] if argv is None else argv))
    except ValidationError as error:
        for line in problem_lines(error, flags=True):
            print(f"bertscope serve: {line}", file=sys.stderr)
        return 2
    except ConfigError as error:
        for line in str(error).splitlines():
            print(f"bertscope serve: {line}", file=sys.stderr)
        return 2
    except SettingsError as error:
        print(
            f"bertscope serve: {str(error).removeprefix('error parsing CLI: ')} (try: bertscope serve --help)", file=sys.stderr
        )
        return 2
    try:
        require_paths(settings.model)
        check_gpu(settings.device)
        check_free(settings.address, settings.metrics_address)
    except (OSError, FailedPrecondition, InvalidArgument) as error:
        print(f"bertscope serve: {error}", file=sys.stderr)
        return 1
    process.prepare()
    logs.configure(settings.log_format, settings.log_level)
    logger.info("bertscope %s starts: Python %s, process %d", _version(), platform.python_version(), os.getpid())
    if unknown := unknown_variables(os.environ):
        logger.warning("of no effect in the environment, for no setting has that name: %s", ", ".join(unknown))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(settings, began, ended, overdue))


async def _serve(settings: Settings, began: float, ended: Callable[[int], None], overdue: Callable[[], None]) -> int:
    """Runs the server, in a process that began at a time.monotonic()."""
    # Imported here, because errors in flags or ports should be reported at once.
    from bertscope_service.checkpoints.temporary_folder import remove_abandoned
    from bertscope_service.errors import ServiceError
    from bertscope_service.rpc.server import serve

    remove_abandoned()
    # An old cache or a model root may be large, and its disk slow: nothing waits for it.
    threading.Thread(target=_clean, args=(settings,), name="bertscope-clean", daemon=True).start()
    status = 1
    try:
        await serve(settings, began, overdue)
        status = 0
    except (ServiceError, OSError) as error:
        print(f"bertscope serve: {error}", file=sys.stderr, flush=True)
    finally:
        ended(status)
    return status


def _clean(settings: Settings) -> None:
    """Removes old exports, and what killed servers left below the model roots."""
    from bertscope_service.checkpoints.locked_folders import remove_unfinished
    from bertscope_service.models.kept_exports import prune_unless_busy

    prune_unless_busy(settings.cache_folder)
    remove_unfinished(settings.model_root)


def _version() -> str:
    from bertscope import __version__  # imports grpc

    return __version__


def _exit_now() -> None:
    """Ends the process though its stop has not ended."""
    logger.critical("the stop hangs; the process ends without it")
    logging.shutdown()
    os._exit(1)


def _exit_soon(status: int) -> None:
    """Ends the process after a while, if it has not ended by itself by then; at once, if a device hangs in native code, or
    PyTorch is being imported: the interpreter and its libraries can't be torn down around it."""
    from bertscope_service.rpc.model_libraries import importing

    if importing() or _hanging():
        logging.shutdown()
        os._exit(status)
    exiting = threading.Timer(EXIT_SECONDS, os._exit, (status,))
    exiting.daemon = True
    exiting.start()


def _hanging() -> bool:
    if "bertscope_service.engine.watchdog" not in sys.modules:
        return False  # no device has begun anything
    from bertscope_service.engine.watchdog import hanging

    return hanging()


if __name__ == "__main__":
    sys.exit(run())
