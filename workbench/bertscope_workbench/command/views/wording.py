"""Writes fields of requests and arguments of calls, which errors name, as the options that fill them."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

filled: ContextVar[Mapping[str, str]] = ContextVar("filled", default=MappingProxyType({}))
"""The options of the command that runs, by the fields and arguments that they fill."""

SNIPPET = re.compile(r"\b(\w+)=(?:True\b|bertscope\.\w+\(([^()]*)\)|(?=$|[ ;,.)]))")
"""An argument as Python has it: resume=True, timeout=, tls=bertscope.Tls(ca=...)."""
WORD = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)|(?<![-\w./])[a-z]\w*(?:\[\d+\]|\.[a-z]\w*)*")
"""A quotation, or a word that may be a field: top_k, layers[0], greedy.max_removed."""


def in_options(message: str) -> str:
    """Returns the message with options in the place of fields and arguments that the command that runs fills.

    A word is a field if it begins the message or a part of it ("truncate: ..."), follows "set", or is written as no word of
    English is.
    """
    options = filled.get()

    def of_snippet(found: re.Match[str]) -> str:
        names = [part.partition("=")[0].strip() for part in (found[2] or found[1]).split(",")]
        return " ".join(options[name] for name in names) if all(name in options for name in names) else found[0]

    message = SNIPPET.sub(of_snippet, message)

    def of_word(found: re.Match[str]) -> str:
        word, before = found[0], message[: found.start()]
        begins = not before or before.endswith(("(", "; "))
        if not ({*word} & {*"_[."} or before.endswith("set ") or (begins and message.startswith(": ", found.end()))):
            return word
        # Of a list the field is what has the number: those below it are of one item.
        names = re.sub(r"\[\d+\]", "", word).split(".")
        known = (".".join(names), *((names[0], word.partition("[")[0].split(".")[-1]) if "[" in word else names[-1:]))
        return next((options[name] for name in known if name in options), word)

    return WORD.sub(of_word, message)
