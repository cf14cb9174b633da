"""Show the hidden states of texts: how many, how long. With --output, write them, of as many texts as there are.

The file appears when it is whole, and not at all if the run ends before.

Examples:

  bertscope states "The keys to the cabinet are old." --layers 0,3,6
  bertscope states --texts examples/sentences.txt --output states.parquet
"""

import json as json_format
from functools import partial
from pathlib import Path
from typing import Any

from bertscope import Client, DataType, StatePooling, StateQuantity, StatesInput, StateUnit, TextsProgress
from bertscope.errors import invalid_argument

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options.answering import ItemFileOptions, PairArguments
from bertscope_workbench.command.options.describing import TREEBANK
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.items import ItemSource, LeftOut, Place, SkipBroken, stopped_in_one_line
from bertscope_workbench.command.options.sources import source_of
from bertscope_workbench.command.options.specifications import numbered
from bertscope_workbench.command.options.texts import answer_texts
from bertscope_workbench.command.views.files import require_output
from bertscope_workbench.command.views.output import UsageError, console
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.states import document, print_states, print_written
from bertscope_workbench.readers import files
from bertscope_workbench.readers.files import ItemKind
from bertscope_workbench.readers.items.sources import Items, ItemStream
from bertscope_workbench.readers.state_files import write_states
from bertscope_workbench.readers.state_formats import STATE_FORMATS, format_of
from bertscope_workbench.readers.table_rows import Row
from bertscope_workbench.readers.treebanks import read_conllu


def _marked(row: Row) -> StatesInput:
    """Returns a text with its spans: [[start, end], ...], or [start, end, 1] in the second text."""
    spans = row["spans"]
    if isinstance(spans, str):
        try:
            spans = json_format.loads(spans)
        except ValueError:
            raise invalid_argument("spans", "must be a list: [[0, 5], [24, 30]]") from None
    if not isinstance(spans, list):
        raise invalid_argument("spans", "must be a list: [[0, 5], [24, 30]]")
    return StatesInput(files.INPUTS.item(row), spans)


MARKED = ItemKind(("text", "spans"), ("text_pair",), _marked)
"""A text or a pair and its spans: columns "text", "spans", and "text_pair" if there is one."""


def states(
    *,
    to: ModelOptions,
    text: list[str] | None = argument("[TEXT]...", "Texts, or lines of stdin.", default=None, without="file"),
    pair: str | None = option("--pair TEXT", "A second text, read with the one TEXT.", without="file"),
    file: ItemFileOptions = offered(
        file='.txt, .conllu, or columns "text", maybe "text_pair", of a table.', limit="Take the file's first N texts."
    ),
    layer: list[int] | None = numbered("--layer, --layers L[,L]", "Layers, from 0, the embeddings; all unless set."),
    unit: StateUnit = option(
        "--unit", 'What has a state; a span is a part that the file marks in its column "spans".', default="piece"
    ),
    pooling: StatePooling | None = option(
        "--pooling", "How the pieces of a word, span or text are joined; mean unless set. declared: as the model's folder says."
    ),
    quantity: StateQuantity = option(
        "--quantity", "What is read of each token; with --output, hidden alone.", default="hidden"
    ),
    dtype: DataType = option(
        "--dtype", "Numbers as they are sent; bfloat16 is written as float32, which has its values.", default="float32"
    ),
    output: Path | None = option("--output FILE", "Write the states: .parquet, .npy or .safetensors.", without="json quantity"),
    replace: bool = flag("--replace", "Put the file in the place of one that exists.", needs="output"),
    skip_broken: SkipBroken = False,
    call: options.LongCallOptions,
) -> None:
    if unit == "span" and (file.file is None or file.file.suffix.lower() == TREEBANK):
        raise UsageError('--unit span goes with --texts FILE, a table with a column "spans"')
    require_output(output, STATE_FORMATS)
    if output is not None:
        format_of(output)
    left_out = LeftOut()
    items, place = _items(file, text or [], pair, left_out, spans=unit == "span", skip=skip_broken)
    asked: dict[str, Any] = {
        "layers": layer,
        "unit": unit,
        "pooling": pooling,
        "dtype": dtype,
        **to.arguments(),
        **call.arguments(),
    }
    with to.connect(call.timeout) as client:
        if output is not None:
            _write(client, output, items, place, left_out, replace, skip_broken, **asked)
            return
        ask = partial(client.extract_hidden_states, quantity=quantity, **asked)
        given = ((item.number, item.value) for item in items)
        answer_texts(given, ask, show=partial(print_states, console()), document=document if call.json else None)


def _items(
    file: ItemFileOptions, texts: list[str], pair: str | None, left_out: LeftOut, *, spans: bool, skip: bool
) -> tuple[Items[Any], Place]:
    """Returns the texts of a file, of the arguments or of the lines of stdin, and the function that names their places."""
    path = file.file
    if path is None:
        return ItemStream(item for _, item in PairArguments(texts, pair).items()), lambda item: f"text {item.number}"
    if path.suffix.lower() == TREEBANK:
        sentences = source_of(path, lambda: read_conllu(path, limit=file.limit))
        for line in sentences.left_out:
            left_out.broken(invalid_argument(str(path), line))
        return ItemStream([each.text for each in sentences.items]), lambda item: sentences.places[item.number - 1]
    kind: ItemKind[Any] = MARKED if spans else files.INPUTS
    source = ItemSource(path, kind, file.columns, file.limit)
    return source.read(left_out.broken if skip else None), lambda item: f"{path}, line {item.number}"


def _write(
    client: Client,
    output: Path,
    items: Items[Any],
    place: Place,
    left_out: LeftOut,
    replace: bool,
    skip_broken: bool,
    **asked: Any,
) -> None:
    """Writes the states, and says what is in the files. A run that ends before its time is one line."""
    answered: list[TextsProgress] = []

    def how() -> str:
        if not answered:
            return ""
        of = "" if items.total is None else f" of {items.total}"
        return f"; nothing was written to {output}, which appears when it is whole: {answered[-1].done}{of} texts were answered"

    with stopped_in_one_line(output, how) as check, answering("extracting") as show:

        def progress(event: TextsProgress) -> None:
            answered[:] = [event]
            check()
            show(event)

        rejected = left_out.rejected(place) if skip_broken else None
        written = write_states(
            *(output, items, client.extract_hidden_states),
            options=asked,
            replace=replace,
            on_rejected=rejected,
            on_progress=progress,
        )
    print_written(console(), written, left_out.number)
