"""Asks attention about plain sentences, one after the other, so that intervals are over sentences."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from bertscope import AttentionDescription, Quantity
from bertscope.values.validation import TextOrPair

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import NotAsked, halves
from bertscope_workbench.papers.items import plain_sentences
from bertscope_workbench.papers.items.contrasts import MASK
from bertscope_workbench.papers.items.labelled import labelled_files
from bertscope_workbench.papers.items.treebank import given_bank

T = TypeVar("T")
R = TypeVar("R")
Values = npt.NDArray[np.float64]
Choices = npt.NDArray[np.int64]
WORD = re.compile(r"[^\W\d_]+")
MOST = 100
"""The most texts of --data."""


def sentences(asking: Asking, language: str | None = None) -> list[str]:
    """Returns sixty plain sentences in a language, that of the claims unless given: the same ones in each, in the same order;
    as many of them as --limit says.

    Raises NotAsked for a language that has none.
    """
    language = language or asking.language
    found = plain_sentences(language)[: asking.data.limit]
    if not found:
        raise NotAsked(f"no plain sentences in the language {language!r} ship")
    return found


def masked_words(texts: Sequence[str], letters: int = 1) -> list[tuple[str, str, int]]:
    """Returns each word of so many letters or more: its text with a mask in its place, the word, and the number of the text."""
    return [
        (text[: match.start()] + MASK + text[match.end() :], match.group(), number)
        for number, text in enumerate(texts)
        for match in WORD.finditer(text)
        if len(match.group()) >= letters
    ]


def source(asking: Asking, count: int) -> str:
    """Returns what the sentences are, in words."""
    return f"{count} plain sentences of our own in the language {asking.language!r} (licence of the project)"


def each(asking: Asking, items: Sequence[T], ask: Callable[[T], R]) -> list[R]:
    """Returns the answer to each item, and tells how far it is."""
    found = []
    for index, item in enumerate(items):
        found.append(ask(item))
        asking.show(index + 1, len(items))
    return found


def own_texts(asking: Asking, *, pairs: bool) -> tuple[list[TextOrPair], str]:
    """Returns the first texts of --data, and what they are: pairs of labelled texts, or sentences of a treebank, or else single
    labelled texts. Raises NotAsked if the folder has none."""
    bank = None if pairs else given_bank(asking)
    if bank is not None:
        return [sentence.text for sentence in bank.test[:MOST]], bank.source
    for labelled in labelled_files(asking.data):
        if labelled.of_pairs == pairs:
            return labelled.inputs[:MOST], f"texts of {labelled.path.name} (--data)"
    raise NotAsked(f"--data has no {'labelled pairs of texts' if pairs else 'treebank and no labelled texts'}")


def described(
    asking: Asking, quantity: Quantity = "weights", *, pairs: bool = False, own: bool = False
) -> list[AttentionDescription]:
    """Returns the description of the heads of each sentence; with `pairs`, of each sentence with the next one as its second
    text; with `own`, of texts of --data."""
    inputs: list[TextOrPair] = []
    if own:
        inputs, _ = own_texts(asking, pairs=pairs)
    else:
        texts = sentences(asking)
        inputs += [*zip(texts, [*texts[1:], texts[0]], strict=True)] if pairs else texts

    def make() -> list[AttentionDescription]:
        return each(
            asking,
            inputs,
            lambda text: asking.client.describe_attention(
                [text], model=asking.model, quantity=quantity, head_distances=not pairs, truncate=True, timeout=asking.timeout
            ),
        )

    return asking.kept(f"described {quantity} {pairs} {own}", make)


def statistic(asking: Asking, name: str, quantity: Quantity = "weights") -> Values:
    """Returns [sentences, layers, heads]: a statistic of `describe_attention`. Raises NotAsked if no sentence has it."""
    found = described(asking, quantity)
    if name not in found[0].statistics:
        raise NotAsked(f"texts of this model have no statistic {name!r}: its tokenizer adds no such token")
    return np.stack([text.mean(name) for text in found])


def special_tokens(asking: Asking) -> int:
    """Returns the number of special tokens that the tokenizer adds to a text."""

    def make() -> int:
        (maps,) = asking.client.extract_attention(
            sentences(asking)[:1], model=asking.model, layers=[0], heads=[0], timeout=asking.timeout
        )
        return sum(token.special for token in maps.tokens)

    return asking.kept("special tokens", make)


def crossed(values: Values) -> tuple[Values, Choices]:
    """Returns the number of each item of the candidate with the highest mean among the items of the other half, [items], and
    which candidate that was, [items]. `values` are [items, candidates].

    So no candidate is scored on items that it was chosen on.
    """
    chosen = np.zeros(len(values), np.int64)
    first, second = halves(len(values))
    if not len(second):
        raise NotAsked("one item can't be divided into items to choose on and items to score")
    chosen[second] = np.nanargmax(np.nanmean(values[first], axis=0))
    chosen[first] = np.nanargmax(np.nanmean(values[second], axis=0))
    return values[np.arange(len(values)), chosen], chosen


def chosen_names(names: Sequence[str]) -> str:
    """Returns what was chosen, in words."""
    return "chosen on one half of the items and scored on the other, both ways: " + ", ".join(dict.fromkeys(names))


def head_names(chosen: Choices, heads: int) -> str:
    """Returns chosen heads in words, numbered layer:head."""
    return chosen_names([f"{index // heads}:{index % heads}" for index in chosen.tolist()])
