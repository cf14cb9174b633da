"""Measures what of the meaning of words a linear probe reads from their states, beside what the words alone tell (Tenney et al.
2019; Hewitt and Liang 2019)."""

import importlib.resources
from random import Random
from typing import Literal

from bertscope import ProbeText

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked
from bertscope_workbench.papers.items.generated import ambiguous_names
from bertscope_workbench.papers.items.numbers import divided
from bertscope_workbench.papers.items.treebank import bank_of, role_labels
from bertscope_workbench.papers.items.word_tasks import labels_of
from bertscope_workbench.papers.measures.probing import Right, best_beside, probed, train_and_apply

SEED = 1
RELATED = "{} and {} were in the news."
"""A sentence with a capital and a country, its own or another one."""


def beside(
    asking: Asking, *, label: Literal["entities", "roles"], control: Literal["embeddings", "neighbours", "control task"]
) -> Measured:
    """Measures the share of labels that a probe of the layer with the least loss on the sentences that end training gets right,
    of generated sentences: the types of names that have several, or the roles of arguments. Items are sentences.

    The control is a probe of the embeddings; of the mean of the embeddings of a word and the two words beside it; or of random
    labels, one for each word, unless the commonest label is right more often.
    """
    parts = asking.kept(f"readable {label}", lambda: _parts(asking, label))
    if label == "roles":
        of = probed(asking, "role")
    else:
        of = asking.kept("read entities", lambda: train_and_apply(asking, label, *parts, truncate=False))
    found, test = of.found, parts[2]
    groups = [index for index, text in enumerate(test) for _ in text.labels]
    if control == "embeddings":
        other: Right | float = of.right[0]
    elif control == "neighbours":
        wide = [[_widened(text) for text in part] for part in parts]
        other = asking.kept(
            f"neighbours {label}", lambda: train_and_apply(asking, label, *wide, layers=[0], truncate=False)
        ).right[0]
    else:
        other = max(of.control_task[of.best], found.part.majority)
    return best_beside(
        of,
        other,
        groups=groups,
        data=f"{len(groups)} words of {len(test)} sentences that the primer generates, probes trained on {found.train.spans} "
        "others (licence of the project)",
        lines={"control task": of.control_task},
        notes=[f"layer {of.best} has the least loss on the sentences that end training"],
    )


def related(asking: Asking) -> Measured:
    """Measures the share of pairs of a capital and a country, its own or another one, that a probe tells apart, of countries
    that are new to it. Items are countries."""
    parts = [part[: asking.data.limit] for part in capital_pairs()]
    of = asking.kept("related", lambda: train_and_apply(asking, "related", *parts, truncate=False))
    groups = [index // 2 for index in range(len(parts[2]))]
    return best_beside(
        of,
        0.5,
        groups=groups,
        bounds=(-0.5, 0.5),
        data=f"{len(groups)} pairs of a capital and a country, CIA World Factbook (public domain), probes trained on "
        f"{of.found.train.spans} of other countries",
        lines={"chance": 0.5},
        notes=[f"layer {of.best} has the least loss on the countries that end training"],
    )


def _parts(asking: Asking, label: str) -> tuple[list[ProbeText], list[ProbeText], list[ProbeText]]:
    bank = bank_of(asking)
    if not bank.generated:
        raise NotAsked("the treebank of --data has no roles and entities; leave --data out to ask about generated sentences")
    if label == "roles":
        return bank.parts(role_labels)
    texts = ambiguous_names()[: None if asking.data.limit is None else 3 * asking.data.limit]
    train, dev, test = ([texts[one] for one in part] for part in divided(range(len(texts)), SEED))
    return train, dev, test


def capital_pairs() -> tuple[list[ProbeText], list[ProbeText], list[ProbeText]]:
    """Returns two pairs of each country in three parts: its capital with it, and with another country of the part."""
    table = importlib.resources.files("bertscope_workbench.papers.reproductions").joinpath("capitals.tsv")
    _, *rows = (line.split("\t") for line in table.read_text("utf-8").splitlines())
    pairs = [(country, capital) for country, capital in rows if not _alike(country, capital)]
    draw, parts = Random(0), []  # noqa: S311  pairs of names, not secrets
    for part in divided(range(len(pairs)), 0):
        others = part[1:] + part[:1]
        chosen = [(pairs[one], pairs[other]) for one, other in zip(part, others, strict=True)]
        draw.shuffle(chosen)
        texts = [
            _pair(own[1], country, label) for own, other in chosen for country, label in ((own[0], "its"), (other[0], "no"))
        ]
        parts.append(texts)
    return parts[0], parts[1], parts[2]


def _alike(country: str, capital: str) -> bool:
    """Returns whether the names share the beginning of a word, so that spelling gives the relation away."""
    return any(first[:4] == second[:4] for first in country.lower().split() for second in capital.lower().split())


def _pair(capital: str, country: str, label: str) -> ProbeText:
    begin = len(capital) + len(" and ")
    return ProbeText(RELATED.format(capital, country), [(label, (0, len(capital)), (begin, begin + len(country)))])


def _widened(text: ProbeText) -> ProbeText:
    """Returns a text whose parts reach from the word before to the word after."""
    whole, found = str(text.text), []
    for label in labels_of(text):
        start = whole.rfind(" ", 0, max(0, label.start - 1)) + 1
        end = whole.find(" ", label.end + 1)
        found.append(label._replace(start=start, end=len(whole) if end < 0 else end))
    return ProbeText(text.text, found)
