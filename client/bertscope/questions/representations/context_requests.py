"""Builds the request of FindContexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from bertscope.errors import invalid_argument
from bertscope.questions.attention.marked_texts import RelationText, relation_message
from bertscope.v1 import attention_relations_pb2, common_pb2
from bertscope.v1 import representation_contexts_pb2 as contexts_pb2
from bertscope.values import validation
from bertscope.values.changes import SITES, SiteDirection
from bertscope.values.display import record
from bertscope.values.messages import Asked, asked, text_input
from bertscope.values.positions import span
from bertscope.values.validation import Heads, TextOrPair
from bertscope.values.vectors import tensor

__all__ = ["NearestTo"]

MAX_DIRECTION_BYTES = 12 * 1024 * 1024
"""A message has 16 MiB unless the server is set otherwise; texts need some, too."""

ContextText = TextOrPair | RelationText
"""A text or pair, or one with the words of a treebank."""
Units = str | Mapping[SupportsIndex, Heads]
"""Heads or neurons by layer, {4: [10], 5: None} (None: all of the layer), or "all"."""


@record
class NearestTo:
    """A word in a text: states near to its state are searched for, by their cosine.

    >>> NearestTo("She sat on the bank of the river.", (15, 19), layer=4).word
    'bank'
    """

    text: str
    """The text."""
    span: tuple[int, int]
    """The word in it, code points."""
    layer: SupportsIndex
    """Layer of the states: 0, the embeddings, to the number of layers."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent."""
        start, end, _ = span("span", self.span)
        if not start < end <= len(validation.text("text", self.text)) or not self.text[start:end].strip():
            raise invalid_argument("span", f"is {self.span}, which is no word of the text; count its code points")
        validation.keep(self, layer=validation.uint32("layer", self.layer))

    @property
    def word(self) -> str:
        """The word."""
        return self.text[self.span[0] : self.span[1]]


class AskedText(NamedTuple):
    """A text with its number in the corpus."""

    number: int
    text: ContextText

    @property
    def plain(self) -> TextOrPair:
        """The text or pair itself."""
        return self.text.text if isinstance(self.text, RelationText) else self.text


def asked_contexts(texts: ContextText | Iterable[ContextText], first: SupportsIndex, relation: str | None) -> Asked[AskedText]:
    """Returns any number of texts, numbered from `first` on; those of a list are checked at once."""
    begin = validation.uint64("first_index", first)
    given: Any = [texts] if isinstance(texts, (str, tuple, RelationText)) else texts

    def checked() -> Iterator[AskedText]:
        for index, text in enumerate(validation.many("texts", given, "texts or RelationTexts")):
            field = f"texts[{index}]"
            if not isinstance(text, RelationText):
                if relation is not None:
                    raise invalid_argument(field, "has no pairs of words, and `relation` needs them: give RelationTexts")
                text = validation.text_or_pair(field, text)
            yield AskedText(begin + index, text)

    return asked(given, checked())


def context_message(given: AskedText, relation: str | None, *, backward: bool, pieces: bool) -> contexts_pb2.ContextText:
    """Returns a text with its number; pairs are those of the relation, the other way round if `backward`."""
    if isinstance(given.text, RelationText) and not pieces:
        message = relation_message(given.text, {} if relation is None else {relation: 0})
        for pair in message.pairs if backward else ():
            pair.source, pair.target = pair.target, pair.source
    else:
        message = attention_relations_pb2.RelationText(input=text_input(given.plain))
    return contexts_pb2.ContextText(text=message, id=given.number)


def with_units(
    request: contexts_pb2.FindContextsRequest,
    heads: Units | None,
    neurons: Units | None,
    relation: str | None,
    *,
    backward: bool,
) -> contexts_pb2.FindContextsRequest:
    """Returns the request about heads and neurons, without its texts and directions."""
    if heads is not None:
        layers = [common_pb2.LayerHeads(layer=layer, heads=numbers) for layer, numbers in _by_layer("heads", heads).items()]
        pattern = contexts_pb2.HeadUnits.PATTERN_MOST if relation is None else contexts_pb2.HeadUnits.PATTERN_PAIRS
        request.heads.CopyFrom(contexts_pb2.HeadUnits(heads=layers, pattern=pattern))
    elif relation is not None:
        raise invalid_argument("relation", 'is for heads, and none are searched for; give heads, or "all"')
    if validation.flag("backward", backward) and relation is None:
        raise invalid_argument("backward", "goes with `relation`")
    if neurons is not None:
        found = _by_layer("neurons", neurons).items()
        by_layer = [contexts_pb2.LayerActivations(layer=layer, units=numbers) for layer, numbers in found]
        request.activations.CopyFrom(contexts_pb2.ActivationUnits(layers=by_layer))
    return request


def _by_layer(field: str, units: Units) -> dict[int, tuple[int, ...]]:
    """Returns units by layer, ascending; none for all."""
    if units == "all":
        return {}
    found = validation.heads_by_layer(field, units)
    validation.not_empty(field, [*found])
    return dict(sorted(found.items()))


def with_directions(request: contexts_pb2.FindContextsRequest, directions: Sequence[SiteDirection]) -> list[list[int]]:
    """Adds directions to a request, those at one site together. Returns, of each set, the indices of its directions."""
    size = sum(one.values.nbytes for one in directions)
    if size > MAX_DIRECTION_BYTES:
        raise invalid_argument(
            "directions", f"take {size} bytes, and a call takes {MAX_DIRECTION_BYTES}; search fewer at a time"
        )
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, one in enumerate(directions):
        groups.setdefault((one.site, one.layer, one.cosine, one.threshold is None, len(one.values)), []).append(index)
    for indices in groups.values():
        chosen = [directions[index] for index in indices]
        first = chosen[0]
        message = request.directions.add(site=SITES[first.site], layer=int(first.layer), cosine=first.cosine)
        message.vectors.CopyFrom(tensor(np.stack([one.values for one in chosen])))
        if not first.cosine:
            message.biases.CopyFrom(tensor(np.array([one.bias for one in chosen], np.float32)))
        if first.threshold is not None:
            message.thresholds.CopyFrom(tensor(np.array([one.threshold for one in chosen], np.float32)))
    return list(groups.values())
