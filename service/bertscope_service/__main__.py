"""`bertscope serve`, also as `python -m bertscope_service`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_settings import CliApp, SettingsError

from bertscope_service.settings import Settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run a server until SIGTERM or SIGINT; the exit status. 2: wrong flags; 1: it could not begin, the reason in one line."""
    try:
        settings = CliApp.run(Settings, cli_args=list(sys.argv[1:] if argv is None else argv))
    except ValidationError as error:
        for problem in error.errors():
            name = "-".join(str(part) for part in problem["loc"]).replace("_", "-")
            print(f"bertscope serve: --{name}: {problem['msg']}, got {problem['input']!r}", file=sys.stderr)
        return 2
    except SettingsError as error:
        print(
            f"bertscope serve: {str(error).removeprefix('error parsing CLI: ')} (try: bertscope serve --help)", file=sys.stderr
        )
        return 2
    # oneDNN keeps a kernel, about 0.3 MB, for every number of tokens that a batch ever had, 1024 of them unless told otherwise.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
    # PyTorch's threads wait for more work in a loop that takes milliseconds of a core, in which ONNX Runtime's can't have it.
    # So long a wait gains nothing; without any, every operation would wake them anew.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    # Only now: these take seconds to import, and a wrong flag should be told at once.
    from bertscope_service import logs
    from bertscope_service.errors import ServiceError
    from bertscope_service.server import serve

    logs.configure(settings.log_format, settings.log_level)
    try:
        asyncio.run(serve(settings))
    except (ServiceError, OSError) as error:
        print(f"bertscope serve: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
