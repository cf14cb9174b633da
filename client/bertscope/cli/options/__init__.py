"""Options that several commands take."""

from dataclasses import dataclass
from typing import Annotated

import typer

from bertscope._rpc.channel import DEFAULT_TIMEOUT_SECONDS

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

TIMEOUT = DEFAULT_TIMEOUT_SECONDS


@dataclass(frozen=True)
class CallOptions:
    """The model to ask, how long to wait, and how to print."""

    model: ModelName = None
    timeout: Timeout = TIMEOUT
    json: Json = False


@dataclass(frozen=True)
class LongCallOptions:
    """The same of calls that may take as long as they do."""

    model: ModelName = None
    timeout: LongTimeout = None
    json: Json = False


@dataclass(frozen=True)
class _TruncateOption:
    truncate: Truncate = False


@dataclass(frozen=True)
class TextCallOptions(CallOptions, _TruncateOption):
    """The same of calls about texts, which may be cut."""


@dataclass(frozen=True)
class LongTextCallOptions(LongCallOptions, _TruncateOption):
    """Both."""
