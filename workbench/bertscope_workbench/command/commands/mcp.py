"""Offer a server to agents: its calls as tools of the Model Context Protocol, over stdio or HTTP.

An agent's host starts it by itself (stdio), or calls the address that --http prints.
"""

import importlib.util
import logging
import os
import signal
from contextlib import closing
from pathlib import Path

from bertscope_workbench.command.groups import flag, option
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.output import Failure, UsageError, print_failure

DEFAULT_PORT = 6270
DEFAULT_BUDGET = 16_000
LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_VARIABLE = "BERTSCOPE_MCP_TOKEN"


def mcp(
    *,
    server: ServerOptions,
    tools: str = option(
        "--tools usual|read|all|NAME,...",
        "The tools that agents see: a dozen, and a search for the rest; all that only read; all; or names (sweep_*).",
        default="usual",
    ),
    budget: int = option(
        "--budget CHARACTERS", "The longest answer; the rest goes to a file.", default=DEFAULT_BUDGET, min=1000
    ),
    results: Path | None = option("--results DIR", "Folder for full results; else a temporary one, removed at the end."),
    http: bool = flag("--http", "Serve HTTP instead of standard input and output."),
    host: str = option(
        "--host", "HTTP: the address to listen on; others than this machine's need a token.", default=LOOPBACK[0]
    ),
    port: int = option("--port", "HTTP: the port; 0 is any free one.", default=DEFAULT_PORT, min=0, max=65535),
    caller_token_file: Path | None = option(
        "--caller-token-file FILE", f"HTTP: the token that callers must send; else ${TOKEN_VARIABLE}."
    ),
    host_name: list[str] | None = option("--host-name NAME", "HTTP: a name that callers use for this machine."),
    http_certificate: Path | None = option(
        "--http-certificate FILE", "HTTP: encrypt, with this certificate.", needs="http_key"
    ),
    http_key: Path | None = option("--http-key FILE", "HTTP: its private key.", needs="http_certificate"),
) -> None:
    from bertscope_workbench.agents.contract import chosen  # the whole contract takes time to import

    try:
        listed = chosen(tools)
        # A list of all takes an agent's room: it searches for what it is not shown.
        offered = chosen("read") if tools == "usual" else listed
    except ValueError as error:
        raise UsageError(f"--tools: {error}") from error
    if importlib.util.find_spec("mcp") is None:
        raise Failure("bertscope mcp needs the package mcp: in a checkout, pip install . './workbench[mcp]'")
    token = _caller_token(caller_token_file) if http else None
    if http:
        _check(server, host, token)
    logging.basicConfig(level=logging.WARNING)  # to stderr: stdout is the protocol's
    from bertscope_workbench.agents import serving
    from bertscope_workbench.agents.calls import Calls
    from bertscope_workbench.agents.results import Results
    from bertscope_workbench.agents.server import Tools, make_server

    calls = server.connection(Calls)
    try:
        listener = serving.listen(host, port) if http else None
        kept = Results.of(results)
    except OSError as error:
        where = f"{host}:{port}" if results is None or not error.filename else str(error.filename)
        raise Failure(f"{where}: {error.strerror}") from error
    with closing(kept):
        tools_of = Tools(calls, offered, kept, budget, listed)
        made = make_server(tools_of, target=server.target, folder=str(kept.folder), most=budget)
        if listener is None:

            def end(*_: object) -> None:
                kept.close()
                os._exit(0)  # An end in order would wait for the thread that reads stdin. The server hears of it all the same.

            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, end)
            print_failure(f"{len(offered)} tools of {server.target} on stdin and stdout; full results go to {kept.folder}")
            serving.run(serving.serve_stdio(made, calls))
            return
        options = serving.HttpOptions(host, port, token, host_name or (), http_certificate, http_key)

        def started(address: str) -> None:
            print_failure(
                f"{len(offered)} tools of {server.target} at {address}; full results go to {kept.folder}; Ctrl-C ends it"
            )

        serving.run(serving.serve_http(made, calls, listener, options, started))


def _caller_token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        token = file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    if not token:
        raise UsageError(f"{file}: it is empty; write a token into it")
    return token


def _check(server: ServerOptions, host: str, token: str | None) -> None:
    """Refuses what would lend its owner's rights to others: agents call with the token and the certificate of this command."""
    if token is None and host not in LOOPBACK:
        raise UsageError(f"--host {host}: other machines need a token: --caller-token-file FILE or ${TOKEN_VARIABLE}")
    if token is None and server.has_identity():
        raise UsageError(
            "other users of this machine could call with your token: give callers one, "
            f"--caller-token-file FILE or ${TOKEN_VARIABLE}"
        )
