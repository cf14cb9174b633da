"""Writes the hidden states of any number of texts to a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from bertscope import HiddenStates, TextsProgress, __version__
from bertscope.errors import invalid_argument
from bertscope.values.display import record
from bertscope.values.validation import File

from bertscope_workbench.readers.items.asked import AskedItems, OnItemRejected, RejectedItems
from bertscope_workbench.readers.items.identity import options_text, provenance_columns
from bertscope_workbench.readers.items.part_files import PartFiles
from bertscope_workbench.readers.items.sources import Items, items_of
from bertscope_workbench.readers.state_formats import format_of, others

__all__ = ["WrittenStates", "write_states"]


@record
class WrittenStates:
    """The files that `write_states` has written."""

    paths: tuple[Path, ...]
    """The files, the main one last."""
    texts: int
    """Texts whose states they have."""
    rows: int
    """Rows of all texts: pieces, words, spans or texts."""
    layers: tuple[int, ...]
    """Layer of each state of a row: 0 is the embeddings, k the output of layer k - 1."""
    hidden_size: int
    """Numbers of a state."""
    dtype: str
    """The type of the numbers: "float32" or "float16"."""
    truncated: int
    """Texts of which tokens were cut away."""
    rejected: int
    """Texts that the server rejected, whose states are not there."""


def write_states(
    output: File,
    items: Items[Any] | Iterable[Any],
    ask: Callable[..., Generator[HiddenStates, None, None]],
    *,
    options: Mapping[str, Any] | None = None,
    replace: bool = False,
    on_rejected: OnItemRejected | None = None,
    on_progress: Callable[[TextsProgress], object] | None = None,
) -> WrittenStates:
    """Asks for the hidden states of any number of texts, and writes them to a .parquet, .npy or .safetensors file as they come.

    `items` are an `ItemFile`, or an iterable of texts, pairs, `StatesInput`s or `Item`s, which is read as needed. `ask` is
    `client.extract_hidden_states`, which is called with the items' values and the `options`. `on_rejected` takes the items that
    the server rejects, which are then left out; without it the first one ends the run. Memory does not grow with the number of
    texts. "bfloat16" is written as float32, which has each of its values.

    The files appear when they are whole, and not at all if the run ends before. Raises FailedPrecondition for a file that
    exists, unless another is to `replace` it; OSError for a file that cannot be written; InvalidArgument for another
    suffix or quantity, and if there is nothing to write; and as `ask` does.
    """
    path = Path(output)
    writer_of = format_of(path)
    source: Items[Any] = items_of(items)
    own = {} if options is None else dict(options)
    if own.get("quantity", "hidden") != "hidden":
        raise invalid_argument("quantity", "is another than hidden states, which alone are written; leave it out")
    rejected = RejectedItems(on_rejected)
    texts = rows = truncated = 0
    with (
        PartFiles(path, replace=replace, others=others(path)) as files,
        closing(AskedItems(source, source.key, rejected).answers(partial(ask, **own))) as answers,
    ):
        begun = next(answers, None)
        if begun is None:
            raise invalid_argument("items", "have no states to write: every text was rejected, or there was none")
        first = begun[1]
        with closing(writer_of(files, source.key, _about(first, own))) as writer:
            for item, found in chain([begun], answers):
                writer.add(item.number, found)
                texts, rows, truncated = texts + 1, rows + found.states.shape[1], truncated + (found.truncated_tokens > 0)
                if on_progress is not None:
                    on_progress(TextsProgress(texts + rejected.count, source.total))
            paths = writer.end()
    size, dtype = first.states.shape[2], first.states.dtype.name
    return WrittenStates(paths, texts, rows, first.layers, size, dtype, truncated, rejected.count)


def _about(found: HiddenStates, options: Mapping[str, Any]) -> dict[str, str]:
    """Returns what all rows share."""
    shared = {"unit": found.unit, "pooling": found.pooling, "layers": json.dumps(found.layers)}
    return {**shared, **provenance_columns(found.provenance), "options": options_text(options), "bertscope": __version__}
