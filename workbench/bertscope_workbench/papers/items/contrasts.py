"""Reads the items of masked-word claims that ship: words at masks, of which some must be likelier than others."""

from collections.abc import Iterable

from bertscope.values.display import record

from bertscope_workbench.papers.items import table
from bertscope_workbench.papers.published.item_kinds import Choice

MASK = "[MASK]"
Asked = tuple[str, str]
"""A text with one mask, and the word at it."""
SETS = {
    "attractors": "sentences with a noun of the other number before the verb",
    "nonsense": "grammatical sentences without meaning",
    "licensed": "pairs of sentences with and without a licensor",
    "in-scope": "pairs of sentences whose licensor is inside and outside of the scope",
    "affirmed": "sentences that say what a thing is",
    "negated": "sentences that say what a thing is not",
    "fitting-roles": "sentences with a word that fits and one that only goes with them",
    "related-roles": "sentences with a word that goes with them and one that does not",
    "sizes": "questions about the sizes of two things",
    "comparisons": "comparisons of two things",
    "stereotyped-jobs": "neutral sentences about two jobs",
    "names-against-facts": "people born elsewhere than their names suggest",
}
"""By name: the sets of contrasts.tsv, and their description.

- "attractors" and "nonsense" have each head noun in the singular and in the plural, so that neither form is right more often,
  and a noun of the other number next to the verb, so that a model that agrees with it is always wrong. The words of "nonsense"
  are drawn at random, as those of Gulordava et al. 2018.
- "licensed" and "in-scope" have a negative polarity item such as "ever", which needs a licensor such as "no" that has it in
  its scope (Warstadt et al. 2019); the texts of "in-scope" have the same words in another order.
- "affirmed" and "negated" have the form of NEG-136-SIMP of Ettinger 2020, with other nouns: of two things each with its own
  kind against each with the other's, and with "not" the other way round.
- "names-against-facts" compares a name of the right nationality with one of a third country, of people born in yet another.
"""


@record
class Contrast:
    """Words at masks: the logarithms of the probabilities of the right ones must add up to more than those of the wrong ones.

    With one of each it is a choice: between two words at a mask, or between two texts for a word. With two of each, as
    ("a house", "big") and ("a mouse", "small") against ("a house", "small") and ("a mouse", "big"), what a word or a text has
    by itself falls out.
    """

    right: tuple[Asked, ...]
    wrong: tuple[Asked, ...]
    group: str
    """Items of one group are alike, and count as one."""


def shipped_contrasts(name: str) -> list[Contrast]:
    """Returns a set of the contrasts that ship. A row with one text is a choice of words, the right one first, one with one
    word a choice of texts, and one with two of both says that the first text goes with the first word, the second with the
    second."""
    found = []
    for row in table("contrasts.tsv"):
        if row["set"] == name:
            text, other, word, other_word = (row[key] for key in ("text", "other_text", "word", "other_word"))
            if not other:
                right, wrong = [(text, word)], [(text, other_word)]
            elif not other_word:
                right, wrong = [(text, word)], [(other, word)]
            else:
                right, wrong = [(text, word), (other, other_word)], [(text, other_word), (other, word)]
            found.append(Contrast(tuple(right), tuple(wrong), row["group"]))
    return found


def of_choices(items: Iterable[Choice], group: str = "") -> list[Contrast]:
    """Returns a study's choices of two words, those of a group if one is named; each item counts by itself."""
    return [
        Contrast(item.options[:1], item.options[1:2], str(number))
        for number, item in enumerate(items)
        if not group or group in item.groups
    ]
