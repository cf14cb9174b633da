"""Attention maps made for tests of what users see, and a reader of pages."""

from html.parser import HTMLParser

import numpy as np
from bertscope import AttentionMaps, Provenance, Token

SOURCE = Provenance("models/<b>m</b>", "", "torch", "cpu", "float32", {}, "zero_based")


def maps_of(texts: list[str], layers: tuple[int, ...] = (2, 0), heads: tuple[int, ...] = (1, 3, 5)) -> AttentionMaps:
    weights = np.random.default_rng(0).random((len(layers), len(heads), len(texts), len(texts)))
    return AttentionMaps(
        input_index=0,
        text=" ".join(texts),
        text_pair=None,
        tokens=tuple(Token(text, 1, 0, 0, False, None, 0, ()) for text in texts),
        attention=(weights / weights.sum(-1, keepdims=True)).astype(np.float32),
        layers=layers,
        heads=heads,
        truncated_tokens=0,
        provenance=SOURCE,
    )


class Page(HTMLParser):
    """The elements of a page, and the text in each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_data(self, data):
        if self.texts:
            self.texts[-1] += data

    def text(self, tag: str, **attributes: str) -> str:
        (found,) = [
            text
            for (name, attrs), text in zip(self.elements, self.texts, strict=True)
            if name == tag and attributes.items() <= attrs.items()
        ]
        return found
