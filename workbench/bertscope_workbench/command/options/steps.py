"""Parses compression steps: "layers=0+2+4,int8,onnx"."""

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import bertscope
import typer
from bertscope import InvalidArgument
from bertscope.questions.compression.steps import CRITERIA, Step

from bertscope_workbench.command.groups import Miswritten, each
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.readers import files

OPTION = "--steps"
BITS = re.compile(r"int([2-7])|([2-8])bit")


class Texts:
    """The texts of a file, read once, when a step needs them."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.asked = False

    def read(self) -> list[str]:
        """Returns the texts. Raises Miswritten if there is no file."""
        self.asked = True
        if self._path is None:
            raise Miswritten("needs texts to rank on; give them with --texts FILE")
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
    steps = [*each(OPTION, partial(_step, texts=ranked), written)]
    if texts is not None and not ranked.asked:
        raise typer.BadParameter("--texts goes with a step that ranks: heads=SHARE or ffn=SHARE:importance")
    return steps


def _step(text: str, texts: Texts) -> Step:
    name, equals, argument = (part.strip() for part in text.partition("="))
    make = _plain(name)
    if make:
        if equals:
            raise Miswritten(f"{name} takes no argument")
        return make()
    if name not in WITH_ARGUMENT:
        raise Miswritten(f"there is no step {name!r}; steps are {', '.join([*PLAIN, 'int4', *WITH_ARGUMENT])}")
    convert, example = WITH_ARGUMENT[name]
    if not argument:
        raise Miswritten(f"write {example}, for example")
    try:
        return convert(argument, texts)
    except InvalidArgument as error:
        raise Miswritten(str(error)) from error


def _plain(name: str) -> Callable[[], Step] | None:
    """Returns the function that makes a step without arguments."""
    if bits := BITS.fullmatch(name):
        return lambda: bertscope.weight_only(int(bits[1] or bits[2]))
    return PLAIN.get(name)


def _weight_only(argument: str, texts: Texts) -> Step:
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", argument, re.ASCII)
    if not found:
        raise Miswritten("write weight_only=BITS, for example weight_only=4, or with onnx weight_only=BITSxBLOCK")
    return bertscope.weight_only(int(found[1]), int(found[2]) if found[2] else None)


def _layers(argument: str, texts: Texts) -> Step:
    return bertscope.keep_layers([_whole(part) for part in argument.split("+")])


def _heads(argument: str, texts: Texts) -> Step:
    if ":" not in argument:
        share = _share(argument)
        return bertscope.remove_heads(share=share, texts=texts.read())
    heads: dict[int, list[int] | None] = {}
    for place in argument.split("/"):
        layer, colon, numbers = place.partition(":")
        if not colon:
            raise Miswritten(f"{place!r} names no heads; write LAYER:HEAD+HEAD, or LAYER:all")
        if _whole(layer) in heads:
            raise Miswritten(f"layer {layer} comes twice; write LAYER:HEAD+HEAD once for each")
        heads[int(layer)] = None if numbers == "all" else [_whole(number) for number in numbers.split("+")]
    return bertscope.remove_heads(heads)


def _feed_forward(argument: str, texts: Texts) -> Step:
    share, colon, criterion = argument.partition(":")
    if colon and criterion not in CRITERIA:
        raise Miswritten(f"{criterion!r} is not a way to rank; write {' or '.join(CRITERIA)}")
    if criterion == "importance":
        return bertscope.remove_feed_forward(_share(share), "importance", texts=texts.read())
    return bertscope.remove_feed_forward(_share(share))


def _magnitude(argument: str, texts: Texts) -> Step:
    return bertscope.magnitude(_share(argument))


def _tokens(argument: str, texts: Texts) -> Step:
    return bertscope.eliminate_tokens([_number(part) for part in argument.split("/")])


def _vocabulary(argument: str, texts: Texts) -> Step:
    path, colon, count = argument.rpartition(":")
    counted = bool(colon) and count.isascii() and count.isdecimal()
    file = Path(path if counted else argument)
    if not file.name:
        raise Miswritten("write vocabulary=FILE, a file of texts")
    return bertscope.reduce_vocabulary(read_file(file, files.read_texts), int(count) if counted else 1)


PLAIN: dict[str, Callable[[], Step]] = {
    "onnx": bertscope.onnx,
    "int8": bertscope.int8,
    "fp16": lambda: bertscope.half("fp16"),
    "bf16": lambda: bertscope.half("bf16"),
    "untrained": bertscope.untrained,
}
WITH_ARGUMENT: dict[str, tuple[Callable[[str, Texts], Step], str]] = {
    "weight_only": (_weight_only, "weight_only=4"),
    "layers": (_layers, "layers=0+2+4"),
    "heads": (_heads, "heads=0.3 or heads=2:1+4/3:0"),
    "ffn": (_feed_forward, "ffn=0.25 or ffn=0.25:importance"),
    "magnitude": (_magnitude, "magnitude=0.5"),
    "tokens": (_tokens, "tokens=1/0.8/0.5"),
    "vocabulary": (_vocabulary, "vocabulary=corpus.txt or vocabulary=corpus.txt:2"),
}
"""The function that makes a step of an argument, and how such a step is written."""


def _whole(part: str) -> int:
    if not (part.isascii() and part.isdecimal()):
        raise Miswritten(f"{part!r} is not a number from 0" if part else "a number from 0 is missing")
    return int(part)


def _share(part: str) -> float:
    share = _number(part)
    if not 0 < share < 1:
        raise Miswritten(f"{part} is not a share; write a number over 0 and below 1")
    return share


def _number(part: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise Miswritten(f"{part!r} is not a number" if part else "a number is missing") from None
