"""What every command that calls a server takes, and how it connects."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from bertscope._channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from bertscope.cli.output import Failure
from bertscope.client import Client
from bertscope.errors import DeadlineExceeded, Unavailable

Target = Annotated[str, typer.Option("--target", envvar="BERTSCOPE_TARGET", metavar="HOST:PORT", help="The server to call.")]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model to ask; the server's default model unless set.")
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.001, metavar="SECONDS", help="How long an answer may take.")]
LongTimeout = Annotated[
    float | None, typer.Option("--timeout", min=0.001, metavar="SECONDS", help="How long it may take; no limit unless set.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut texts that are longer than the model reads.")]
Zero = Annotated[list[str] | None, typer.Option("--zero", metavar="L[:H,H]", help="Heads that add nothing. Repeatable.")]
Uniform = Annotated[
    list[str] | None, typer.Option("--uniform", metavar="L[:H,H]", help="Heads that attend to all alike. Repeatable.")
]
Mean = Annotated[
    list[str] | None,
    typer.Option("--mean", metavar="L[:H,H]", help="Heads that add their mean over --reference texts. Repeatable."),
]
Scale = Annotated[list[str] | None, typer.Option("--scale", metavar="L[:H,H]=F", help="Heads that count F times. Repeatable.")]

TARGET = DEFAULT_TARGET
TIMEOUT = DEFAULT_TIMEOUT_SECONDS


@contextmanager
def connect(target: str, timeout: float | None = None) -> Iterator[Client]:
    """A client; what keeps it from reaching a server becomes a line that says what to do."""
    with Client(target, timeout=timeout or TIMEOUT) as client:
        try:
            yield client
        except Unavailable as error:
            if error.reason:  # A server did answer, and says itself why it can't serve.
                raise
            if "refused" in error.message:
                raise Failure(f"no server listens at {target}; start one with: bertscope serve") from error
            raise Failure(f"cannot reach a server at {target}: {error}") from error
        except DeadlineExceeded as error:
            limit = f" within {timeout:g} s" if timeout else ""
            raise Failure(f"no answer from {target}{limit}; allow more with --timeout") from error
