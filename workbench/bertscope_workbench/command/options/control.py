"""`--control untrained`: the same question, asked of a model of the same shape with random weights."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import bertscope

from bertscope_workbench.command.groups import option
from bertscope_workbench.command.views import progress

if TYPE_CHECKING:
    from bertscope import Client

Control = Annotated[
    Literal["untrained"] | None,
    option("--control", "Ask a copy of the model with random weights, too; it is made for it, and unloaded then."),
]


@contextmanager
def untrained_copy(client: "Client", model: str | None) -> Iterator[str]:
    """Yields the name of a copy of a model with random weights, which the server makes, and unloads at the end."""
    with progress.steps("making an untrained model") as show:
        made = client.compress_model(f"untrained-{secrets.token_hex(4)}", bertscope.untrained(), model=model, on_progress=show)
    try:
        yield made.name
    finally:
        client.unload_model(made)
