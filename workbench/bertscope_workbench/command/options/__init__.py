"""Options that several commands take."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from bertscope.rpc.channel import DEFAULT_TIMEOUT_SECONDS

from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options.specifications import byte_count, columns, numbered

ModelName = Annotated[str | None, option("--model NAME", "The model to ask; the server's default model unless set.")]
Timeout = Annotated[float, option("--timeout SECONDS", "How long an answer may take.", min=0.001)]
LongTimeout = Annotated[float | None, option("--timeout SECONDS", "How long it may take; no limit unless set.", min=0.001)]
Json = Annotated[bool, option("--json", "Print one JSON document and nothing else.", field=None)]
Truncate = Annotated[bool, option("--truncate", "Cut texts that are longer than the model reads.")]
Layers = Annotated[list[int] | None, numbered("--layer L[,L]", "Layers, from 0, the embeddings; all unless set.")]
StateLayers = Annotated[
    list[int] | None,
    numbered("--layer, --layers L[,L]", "0 the embeddings, k after layer k - 1; all unless set."),
]
WordPooling = Annotated[Literal["mean", "first", "last"], option("--pooling", "How a word's pieces become one vector.")]
Columns = Annotated[
    Mapping[str, str] | None,
    option("--columns NAME=COLUMN,...", "What the file calls them: text=sentence1.", reads=columns, needs="file"),
]
Memory = Annotated[
    int | None,
    option("--memory SIZE", "Most that the server may keep to share work: 256MiB.", reads=byte_count, field="memory_bytes"),
]
LimitOfEach = Annotated[int | None, option("--limit N", "Take each file's first N.", min=1)]


@dataclass(frozen=True)
class Arguments:
    """Options that are arguments of a client's method, by their names."""

    def arguments(self) -> dict[str, Any]:
        """Returns them, None for a list without a value."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: None if value in ([], ()) else value for name, value in given.items()}


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

    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS
