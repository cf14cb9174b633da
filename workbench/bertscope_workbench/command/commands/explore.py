"""Open a page to look at a model: predictions, heads and attention, and how they change when heads are silenced.

The page is on this machine only, and asks the server as you.
"""

import asyncio
import errno
import logging

from bertscope import BertscopeError, DeadlineExceeded, Unavailable

from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.output import Failure, UsageError, console, print_failure, printable

DEFAULT_PORT = 6260
LOOPBACK = ("127.0.0.1", "localhost")


def explore(
    server: ServerOptions,
    port: int = option(
        "--port", "The page's port; 0 is any free one.", default=DEFAULT_PORT, min=0, max=65535, envvar="BERTSCOPE_EXPLORE_PORT"
    ),
    host: str = option("--host", default=LOOPBACK[0], hidden=True),
) -> None:
    if host not in LOOPBACK:
        # The page acts with its owner's token, so that nobody else may reach it.
        raise UsageError(
            f"the page is served to this machine only; from another one: ssh -L {port}:127.0.0.1:{port} THIS_MACHINE, "
            "then open the address that is printed here"
        )
    from bertscope_workbench.explore.server import listen, serve

    client = server.asynchronous()
    try:
        listener = listen(port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise Failure(f"can't listen on port {port}: {error.strerror}") from error
        raise Failure(f"port {port} is in use; take another with --port, or --port 0 for any free one") from error
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    screen = console()

    def started(address: str) -> None:
        screen.print("open this in a browser of this machine; its key is yours alone; Ctrl-C ends it")
        screen.print(printable(address), soft_wrap=True)

    def unanswered(error: BertscopeError) -> None:
        if isinstance(error, (Unavailable, DeadlineExceeded)):
            print_failure(f"no server answers at {server.target} yet; start one with `bertscope serve`: the page waits for it")
        else:
            print_failure(f"the server at {server.target} refuses: {error}")

    try:
        asyncio.run(serve(client, listener, target=server.target, started=started, unanswered=unanswered))
    except KeyboardInterrupt:
        return
