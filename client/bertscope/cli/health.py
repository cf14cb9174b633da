"""`bertscope health`."""

from typing import Annotated

import typer

from bertscope.cli import options
from bertscope.cli.output import Failure, console, print_json, table
from bertscope.errors import DeadlineExceeded


def health(
    target: options.Target = options.TARGET,
    wait: Annotated[
        float | None, typer.Option("--wait", min=0.001, metavar="SECONDS", help="Wait until the server serves.")
    ] = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Say whether a server serves; the exit code is 0 only if it does."""
    with options.connect(target, timeout) as client:
        if wait:
            try:
                client.wait_until_serving(wait)
            except DeadlineExceeded as error:
                raise Failure(f"no server serves at {target} within {wait:g} s; allow more with --wait") from error
        health = client.health(timeout=timeout)
    if json:
        print_json({"serving": health.serving, "status": health.status, "services": dict(health.services)})
    else:
        result = table(["service", "status"])
        for service, status in {f"server at {target}": health.status, **health.services}.items():
            result.add_row(service, status)
        console().print(result)
    if not health.serving:
        down = [service for service, status in health.services.items() if status == "NOT_SERVING"]
        raise Failure(f"the server at {target} is {health.status}" + (f"; down: {', '.join(down)}" if down else ""))
