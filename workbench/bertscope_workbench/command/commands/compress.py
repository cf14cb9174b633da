"""Compress a model; what comes out is a new model, and the old one stays.

Steps that change the checkpoint:

  layers=0+2+4            keep these layers
  heads=2:1+4/3:0         remove these heads (5:all is all of layer 5)
  heads=0.3               remove this share, the least important on --texts
  ffn=0.25                remove this share of the feed-forward units
  ffn=0.25:importance     likewise, the least important on --texts
  magnitude=0.5           set this share of the weights to zero
  tokens=1/0.8/0.5        share of the tokens that goes on after each layer
  vocabulary=FILE[:2]     keep the pieces that occur (twice) in texts
  untrained               random weights of the same shape, as a control

Steps that write what is left in another form:

  int8                    8-bit integers
  int4, 3bit              weights of so many bits
  weight_only=4x32        likewise, 32 of them with one scale (for onnx)
  fp16, bf16              16-bit floating point
  onnx                    for ONNX Runtime

Examples:

  bertscope compress --steps int8,onnx --name fast
  bertscope compress --steps layers=0+2+4,int4 --name small --folder /models/small
  bertscope compress --steps heads=0.3,ffn=0.25:importance --texts corpus.txt --name lean
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bertscope import BertscopeError, Model
from bertscope.values.documents import document_of
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import offered, option
from bertscope_workbench.command.options import steps as step_grammar
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import progress
from bertscope_workbench.command.views.models import print_models
from bertscope_workbench.command.views.output import Failure, printable

STEP = re.compile(r"\bsteps\[(\d+)\](?:\.\w+)?(?:\.(\w+(?:\[\d+\])?))?")
"""The server's name of a step, with its kind, and maybe a field of it."""


def compress(
    *,
    server: ServerOptions,
    steps: list[str] = option("--steps STEP,STEP,...", "What to do, in this order; see above. Repeatable.", default=...),
    name: str = option("--name NEW", "The id that the new model gets.", default=...),
    texts: Path | None = option("--texts FILE", 'Texts to rank on, for steps by importance: .txt, or column "text".'),
    folder: str | None = option("--folder DIR", "Where the server saves it, too."),
    call: options.LongCallOptions = offered("model", "timeout", "json"),
) -> None:
    written = step_grammar.split(steps)
    asked = step_grammar.parse(written, texts)
    with steps_named(written), server.connect(call.timeout) as client, progress.steps("compressing") as show:
        found = client.compress_model(name, asked, model=call.model, folder=folder, on_progress=show, timeout=call.timeout)
    print_result(found, document_of, partial(print_compressed, folder=folder), json=call.json)


@contextmanager
def steps_named(written: Sequence[str]) -> Iterator[None]:
    """Replaces the server's name of a step in errors by the step as the user wrote it."""
    try:
        yield
    except BertscopeError as error:
        if not STEP.search(str(error)):
            raise
        raise Failure(STEP.sub(lambda found: _written(found, written), str(error))) from error


def print_compressed(screen: Console, model: Model, folder: str | None) -> None:
    """Prints the effect of each step, and the new model."""
    for step in model.compression:
        screen.print(Text(f"{step.step}: ", style="bold").append_text(printable(step.description)))
    print_models(screen, [model])
    if folder is not None:
        screen.print(f"saved in {folder} on the server")


def _written(found: re.Match[str], written: Sequence[str]) -> str:
    index = int(found[1])
    if index >= len(written):
        return found[0]
    return f"--steps {written[index]}" + (f": {found[2]}" if found[2] else "")
