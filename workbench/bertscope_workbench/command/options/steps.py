"""Parses compression steps: "layers=0+2+4,int8,onnx"."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import bertscope
import typer
from bertscope import InvalidArgument
from bertscope.questions.compression.steps import CRITERIA, Step

from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.readers import files

OPTION = "--steps"
BITS = re.compile(r"int([2-7])|([2-8])bit")


@dataclass(frozen=True)
class _Writing:
    """One step as it was written, and its texts."""

    text: str
    argument: str
    texts: "Texts"

    def fail(self, problem: str) -> NoReturn:
        raise typer.BadParameter(f"{OPTION} {self.text}: {problem}")


class Texts:
    """The texts of a file, read once, when a step needs them."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.asked = False

    def read(self, step: _Writing) -> list[str]:
        """Returns the texts. Raises a usage error that names the step if there is no file."""
        self.asked = True
        if self._path is None:
            step.fail("needs texts to rank on; give them with --texts FILE")
        return read_file(self._path, files.read_texts)


def split(values: Iterable[str]) -> list[str]:
    """Returns the steps as they were written, of an option that may be repeated. Raises a usage error if there is none."""
    written = [part.strip() for value in values for part in value.split(",")]
    if not all(written):
        raise typer.BadParameter(f"{OPTION}: write steps with commas between them, such as layers=0+2+4,int8,onnx")
    return written


def parse(written: Iterable[str], texts: Path | None) -> list[Step]:
    """Returns the steps. Raises a usage error that names a step that is not understood."""
    ranked = Texts(texts)
    steps = [_step(text, ranked) for text in written]
    if texts is not None and not ranked.asked:
        raise typer.BadParameter("--texts goes with a step that ranks: heads=SHARE or ffn=SHARE:importance")
    return steps


def _step(text: str, texts: Texts) -> Step:
    name, equals, argument = (part.strip() for part in text.partition("="))
    writing = _Writing(text, argument, texts)
    make = _plain(name)
    try:
        if make:
            return make() if not equals else writing.fail(f"{name} takes no argument")
        if name not in WITH_ARGUMENT:
            writing.fail(f"there is no step {name!r}; steps are {', '.join([*PLAIN, 'int4', *WITH_ARGUMENT])}")
        convert, example = WITH_ARGUMENT[name]
        return convert(writing) if argument else writing.fail(f"write {example}, for example")
    except InvalidArgument as error:
        writing.fail(str(error))


def _plain(name: str) -> Callable[[], Step] | None:
    """Returns the function that makes a step without arguments."""
    if bits := BITS.fullmatch(name):
        return lambda: bertscope.weight_only(int(bits[1] or bits[2]))
    return PLAIN.get(name)


def _weight_only(step: _Writing) -> Step:
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", step.argument, re.ASCII)
    if not found:
        step.fail("write weight_only=BITS, for example weight_only=4, or with onnx weight_only=BITSxBLOCK")
    return bertscope.weight_only(int(found[1]), int(found[2]) if found[2] else None)


def _layers(step: _Writing) -> Step:
    return bertscope.keep_layers([_whole(step, part) for part in step.argument.split("+")])


def _heads(step: _Writing) -> Step:
    if ":" not in step.argument:
        share = _share(step, step.argument)
        return bertscope.remove_heads(share=share, texts=step.texts.read(step))
    heads: dict[int, list[int] | None] = {}
    for place in step.argument.split("/"):
        layer, colon, numbers = place.partition(":")
        if not colon:
            step.fail(f"{place!r} names no heads; write LAYER:HEAD+HEAD, or LAYER:all")
        if _whole(step, layer) in heads:
            step.fail(f"layer {layer} comes twice; write LAYER:HEAD+HEAD once for each")
        heads[int(layer)] = None if numbers == "all" else [_whole(step, number) for number in numbers.split("+")]
    return bertscope.remove_heads(heads)


def _feed_forward(step: _Writing) -> Step:
    share, colon, criterion = step.argument.partition(":")
    if colon and criterion not in CRITERIA:
        step.fail(f"{criterion!r} is not a way to rank; write {' or '.join(CRITERIA)}")
    if criterion == "importance":
        return bertscope.remove_feed_forward(_share(step, share), "importance", texts=step.texts.read(step))
    return bertscope.remove_feed_forward(_share(step, share))


def _magnitude(step: _Writing) -> Step:
    return bertscope.magnitude(_share(step, step.argument))


def _tokens(step: _Writing) -> Step:
    return bertscope.eliminate_tokens([_number(step, part) for part in step.argument.split("/")])


def _vocabulary(step: _Writing) -> Step:
    path, colon, count = step.argument.rpartition(":")
    counted = bool(colon) and count.isascii() and count.isdecimal()
    file = Path(path if counted else step.argument)
    if not file.name:
        step.fail("write vocabulary=FILE, a file of texts")
    return bertscope.reduce_vocabulary(read_file(file, files.read_texts), int(count) if counted else 1)


PLAIN: dict[str, Callable[[], Step]] = {
    "onnx": bertscope.onnx,
    "int8": bertscope.int8,
    "fp16": lambda: bertscope.half("fp16"),
    "bf16": lambda: bertscope.half("bf16"),
    "untrained": bertscope.untrained,
}
WITH_ARGUMENT: dict[str, tuple[Callable[[_Writing], Step], str]] = {
    "weight_only": (_weight_only, "weight_only=4"),
    "layers": (_layers, "layers=0+2+4"),
    "heads": (_heads, "heads=0.3 or heads=2:1+4/3:0"),
    "ffn": (_feed_forward, "ffn=0.25 or ffn=0.25:importance"),
    "magnitude": (_magnitude, "magnitude=0.5"),
    "tokens": (_tokens, "tokens=1/0.8/0.5"),
    "vocabulary": (_vocabulary, "vocabulary=corpus.txt or vocabulary=corpus.txt:2"),
}
"""The function that makes a step of an argument, and how such a step is written."""


def _whole(step: _Writing, part: str) -> int:
    if not (part.isascii() and part.isdecimal()):
        step.fail(f"{part!r} is not a number from 0" if part else "a number from 0 is missing")
    return int(part)


def _share(step: _Writing, part: str) -> float:
    share = _number(step, part)
    if not 0 < share < 1:
        step.fail(f"{part} is not a share; write a number over 0 and below 1")
    return share


def _number(step: _Writing, part: str) -> float:
    try:
        return float(part)
    except ValueError:
        step.fail(f"{part!r} is not a number" if part else "a number is missing")
