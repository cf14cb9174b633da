"""English sentences in which one word belongs to one of two others, the nearer one as often as not."""

import json
from typing import Literal

from bertscope.values.display import record

from bertscope_workbench.papers.items import shipped

Kind = Literal["agreement", "reflexives", "coreference"]
"""The sentences of pointing.jsonl: 160 whose subject and another noun differ in number ("The authors near the old guard are
tired.", "The guard says the old authors are tired."), 96 with a reflexive whose subject and another person differ in gender,
and 96 with a pronoun for one of two people ("The king met the queen because she was lonely.").

Adjectives and adverbs vary how far both are from the word that belongs to one of them. Nobody of every second pair of people is
in the others: a head is not scored on people that it was chosen on."""


@record
class Pointed:
    """A sentence in which a word belongs to one of two others."""

    words: tuple[str, ...]
    """Its words; a period follows the last one."""
    source: int
    """The number of the word that belongs to another."""
    target: int
    """The number of the word that it belongs to."""
    other: int
    """The number of the word that it could be taken to belong to."""
    wrong: str
    """The form that the source would have if it belonged to the other word."""
    group: str
    """Sentences of a group are alike."""

    @property
    def text(self) -> str:
        """The sentence."""
        return " ".join(self.words).capitalize() + "."

    def start(self, number: int) -> int:
        """Returns the first code point of a word."""
        return sum(len(word) + 1 for word in self.words[:number])

    def masked(self, mask: str) -> str:
        """Returns the sentence with a mask in place of the source."""
        start = self.start(self.source)
        return self.text[:start] + mask + self.text[start + len(self.words[self.source]) :]


def pointed(kind: Kind) -> list[Pointed]:
    """Returns the sentences of a kind."""
    rows = map(json.loads, shipped("pointing.jsonl").read_text("utf-8").splitlines())
    return [
        Pointed(tuple(row["words"].split()), row["source"], row["target"], row["other"], row["wrong"], row["group"])
        for row in rows
        if row["kind"] == kind
    ]
