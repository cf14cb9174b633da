"""Say whether a server serves: the exit code is 0 if it does, 1 if it does not or can't be reached, 2 for wrong use.

Example:

  bertscope health --wait 120
"""

from bertscope import DeadlineExceeded, Health
from bertscope.rpc.channel import DEFAULT_TIMEOUT_SECONDS

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.output import Failure, UsageError, console, print_json, table


def health(
    server: ServerOptions,
    wait: float | None = option("--wait SECONDS", "Wait until the server serves.", min=0.001),
    service: str | None = option("--service NAME", "Ask for one service, bertscope.v1.ClozeService for one."),
    timeout: options.Timeout = DEFAULT_TIMEOUT_SECONDS,
    json: options.Json = False,
) -> None:
    with server.connect(timeout) as client:
        if wait:
            try:
                client.wait_until_serving(wait)
            except DeadlineExceeded as error:
                raise Failure(f"no server serves at {server.target} within {wait:g} s; allow more with --wait") from error
        health = client.health(timeout=timeout)
    asked = f"the server at {server.target}"
    if service is not None:
        asked, health = f"{service} at {server.target}", _only(service, health)
    if json:
        print_json({"serving": health.serving, "status": health.status, "services": dict(health.services)})
    else:
        rows = {asked: health.status, **({} if service else health.services)}
        console().print(table(["service", "status"], rows.items()))
    if not health.serving:
        down = [] if service else [name for name, status in health.services.items() if status == "NOT_SERVING"]
        raise Failure(f"{asked} is {health.status}" + (f"; down: {', '.join(down)}" if down else ""))


def _only(service: str, health: Health) -> Health:
    """Returns the health of one service."""
    status = health.services.get(service)
    if status is None:
        raise UsageError(f"--service {service!r} is none of {', '.join(health.services)}")
    return Health(status, {service: status})
