"""Options that several commands take."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from bertscope.rpc.channel import DEFAULT_TIMEOUT_SECONDS

ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model to ask; the server's default model unless set.")
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.001, metavar="SECONDS", help="How long an answer may take.")]
LongTimeout = Annotated[
    float | None, typer.Option("--timeout", min=0.001, metavar="SECONDS", help="How long it may take; no limit unless set.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut texts that are longer than the model reads.")]
Layers = Annotated[
    list[str] | None, typer.Option("--layer", metavar="L[,L]", help="Layers, from 0, the embeddings; all unless set.")
]
StateLayers = Annotated[
    list[str] | None,
    typer.Option("--layer", "--layers", metavar="L[,L]", help="0 the embeddings, k after layer k - 1; all unless set."),
]
WordPooling = Annotated[
    Literal["mean", "first", "last"], typer.Option("--pooling", help="How a word's pieces become one vector.")
]
Columns = Annotated[
    str | None, typer.Option("--columns", metavar="NAME=COLUMN,...", help="What the file calls them: text=sentence1.")
]
LimitOfEach = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take each file's first N.")]
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
class LongCallOptions:
    """How to ask, and how to print: of calls that may take as long as they do."""

    truncate: Truncate = False
    model: ModelName = None
    timeout: LongTimeout = None
    json: Json = False

    def arguments(self) -> dict[str, Any]:
        """Returns all but `json` as arguments of a call."""
        return {"truncate": self.truncate, "model": self.model, "timeout": self.timeout}


@dataclass(frozen=True)
class CallOptions(LongCallOptions):
    """The same of calls that are given up in time."""

    timeout: Timeout = TIMEOUT
