"""Writes the list of a method's arguments, which ends its docstring.

What an argument means is said, in this order, by the declaration's docstring, in a list "Arguments:" of its own; by
`EVERYWHERE`; by the comment of the request's field. Items that are sent in many calls are not described by the contract, whose
limits are those of one call.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping

from tools.protos.classes import WIDTH, Described
from tools.protos.rules import snake
from tools.uniform_calls.declared import Argument, Declared

EVERYWHERE = {
    "inputs": "A text, a tuple of two for a pair, or any number of either, also from a generator.",
    "model": "The model's name or a `Model`; None means the server's default model.",
    "interventions": "Changes of heads or states while the model runs.",
    "reference_texts": "Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need them.",
    "on_progress": "Called with what is done so far; an exception in it ends the call.",
    "on_rejected": "Called with the index and the error of each item that the server rejects (too long, empty), "
    "which is left out; without it the first error is raised.",
    "timeout": "Seconds for each call to the server; None means the client's.",
}
"""Meanings of arguments that many methods have."""

TRAINING = EVERYWHERE | {"timeout": "Seconds for the call; None means no limit."}

WRAPPER = textwrap.TextWrapper(
    WIDTH - 8, initial_indent=" " * 4, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False
)
HEADING = "\n\nArguments:\n"
NAMES = {"text_candidates": "candidates_per_text"}
"""Fields whose arguments have another name."""


def docstring(
    call: Declared, arguments: Iterable[Argument], items: Collection[str], fields: Mapping[str, Mapping[str, Described]]
) -> str:
    """Returns a method's docstring with the list of its arguments.

    `items` are the names of those that are sent in many calls, `fields` are described by `classes.read`. Raises ValueError for
    an argument that nothing describes.
    """
    prose, _, listed = (ast.get_docstring(call.function) or "").partition(HEADING)
    entries = (entry.partition(":") for entry in re.split(r"^ {4}(?=\w)", listed, flags=re.MULTILINE))
    own = {name: " ".join(text.split()) for name, _, text in entries}
    comments = fields[call.message.removeprefix("bertscope.v1.")]
    shared = TRAINING if call.shape in ("trained", "extracted") else EVERYWHERE
    lines = []
    for one in arguments:
        text = own.get(one.name) or shared.get(one.name)
        if text is None and one.name in comments and one.name not in items:
            text = in_python(comments[one.name].docstring, one.default)
        if text is None:
            raise ValueError(
                f'{call.function.name}: nothing says what {one.name} is; say it in its docstring, below "Arguments:"'
            )
        lines += WRAPPER.wrap(f"{one.name}: {text}")
    return prose + HEADING + "\n".join(lines)


def in_python(comment: str, default: str | None) -> str:
    """Returns what a comment of a field, in Python's words, says of the argument: None stands for what is unset, if it is the
    default; another default is in the signature."""
    if default == "None":
        comment = re.sub(r"\b([Ee]mpty|0|[Uu]nspecified)(?= means)", "None", comment)
    else:
        comment = re.sub(r"; 0 means \w+", "", comment)
    comment = re.sub(r"\b(true|false)\b", lambda word: word[0].capitalize(), comment)
    comment = re.sub(r"`(\w+)Request`", lambda name: f"`{snake(name[1])}`", comment)
    return re.sub(r"`(\w+)`", lambda name: f"`{NAMES.get(name[1], name[1])}`", comment)
