"""Measures which heads attend from a word to a linked one, in a treebank (Clark et al. 2019; Kovaleva et al. 2019).

Heads, directions and fixed distances are chosen on one half of the sentences and scored on the other, both ways.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated

import numpy as np
from bertscope import RelationScore, RelationText
from bertscope.questions.attention.selection import DIRECTIONS
from bertscope.values.display import record

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, bootstrapped, paired
from bertscope_workbench.papers.items.treebank import COLUMNS, bank_of, misc, word_columns
from bertscope_workbench.papers.measures import Between
from bertscope_workbench.papers.measures.sentences import Choices, Values, chosen_names, crossed, each
from bertscope_workbench.papers.pictures_data import Grid, bars, grid
from bertscope_workbench.readers.conllu import Sentence
from bertscope_workbench.readers.treebanks import HEAD, read_propbank, relation_text

MOST = 200
"""The most generated sentences that are asked; of files as many as --limit says."""
ALL, ROLE = "all dependencies", "role"
PUNCTUATION = "punct"
SHOWN = 15
"""The relations of a picture; those with most pairs."""
MOST_WORDS, LEAST_DISTANCE = 12, 2
"""Sentences and pairs of roles that Kovaleva et al. 2019, section 4.2, select."""
CORE = {f"ARG{number}" for number in range(5)}
"""PropBank's numbered arguments, which stand in for the paper's core elements of frames."""


@record(eq=False)
class Found:
    """One relation in the sentences that have it."""

    scores: Sequence[RelationScore]
    """[sentences], of one sentence each."""
    places: Sequence[int]
    """[sentences], the number of each among all."""
    heads: Values
    """[sentences, directions, layers, heads], the share of a sentence's pairs that a head finds."""
    offsets: Values
    """[sentences, distances], the share of its pairs that are so far apart."""
    data: str
    """The sentences, in words."""


def head_beside_offset(asking: Asking, *, relation: str) -> Measured:
    """Measures the share of a relation's pairs that the best head finds, beside the best fixed distance (Clark et al. 2019,
    section 4.2). The relation is one of the treebank, without subtypes, or "role": from a predicate to its argument."""
    found = linked(asking, relation)
    scored, chosen = crossed(_flat(found.heads))
    offset, _ = crossed(found.offsets)
    cells = found.heads.mean(0).max(0)
    return paired(
        scored,
        offset,
        bounds=(-1, 1),
        data=found.data,
        picture=grid(cells.tolist(), f"share of {relation} found, in the better direction"),
        notes=[_names(chosen, found.heads)],
    )


def heads_above_offset(asking: Asking, *, relation: str, margin: Annotated[float, Between(0, 1)]) -> Measured:
    """Measures the share of heads that find more of a relation's pairs, by a margin, than the best fixed distance."""
    found = linked(asking, relation)

    def share(items: Choices) -> float:
        heads = found.heads[items].mean(0).max(0)
        return float((heads > found.offsets[items].mean(0).max() + margin).mean())

    return bootstrapped(share, len(found.places), data=found.data, picture=_by_relation(asking, roles=relation == ROLE))


def single_head(asking: Asking) -> Measured:
    """Measures the share of words whose governor is found by the best single head, beside the best fixed distance, punctuation
    left out."""
    found = linked(asking, ALL)
    single, chosen = crossed(_flat(found.heads[:, 1:]))
    offset, _ = crossed(found.offsets)
    rows = {"one head": single, "one fixed distance": offset, "a head for each relation": _together(asking)[0]}
    picture = bars("share of words whose governor is found", {name: float(value.mean()) for name, value in rows.items()})
    notes = [_names(chosen, found.heads[:, 1:])]
    return paired(single, offset, bounds=(-1, 1), data=found.data, picture=picture, notes=notes)


def heads_of_relations(asking: Asking) -> Measured:
    """Measures the share of words whose governor is found if each relation has a head of its own, beside the best single
    head."""
    found = linked(asking, ALL)
    single = dict(zip(found.places, crossed(_flat(found.heads[:, 1:]))[0], strict=True))
    together, places = _together(asking)
    picture = _by_relation(asking, roles=False)
    return paired(together, [single[place] for place in places], bounds=(-1, 1), data=found.data, picture=picture)


def largest_weight(asking: Asking, *, relation: str, beside_chance: bool = False) -> Measured:
    """Measures the largest weight between the words of a pair by the head that gives them most; beside what a head gives to
    other words at the same distance, if asked for, by the head that gives them most beyond that (Kovaleva et al. 2019, sections
    4.2 and 4.5)."""
    found = linked(asking, relation)
    scores = [score for score in found.scores if score.chance_pairs]
    if len(scores) < 2:
        raise NotAsked(f"no two sentences have {relation} beside other words at the same distance")
    scored, control, chosen = _weighed(scores, beyond_chance=beside_chance)
    means = np.mean([[score.largest_weight(way) for way in DIRECTIONS] for score in scores], axis=0)
    return paired(
        scored,
        control if beside_chance else None,
        bounds=(-1, 1),
        data=found.data,
        picture=grid(means.max(0).tolist(), f"largest weight between words of {relation}"),
        notes=[_names(chosen, means[None]), f"99th percentile of all heads: {np.percentile(means, 99):.3f}"],
    )


def best_of_relations(asking: Asking, relations: Sequence[str]) -> dict[int, list[int]]:
    """Returns the heads that find most pairs of some relations, by layer; chosen on all sentences, for use on other texts."""
    best: dict[int, set[int]] = {}
    for relation in relations:
        means = linked(asking, relation).heads.mean(0)
        _, layer, head = np.unravel_index(int(means.argmax()), means.shape)
        best.setdefault(int(layer), set()).add(int(head))
    return {layer: sorted(heads) for layer, heads in best.items()}


def linked(asking: Asking, relation: str) -> Found:
    """Returns a relation in the sentences of the treebank that have it. Raises NotAsked if fewer than two do."""
    return _linked(asking, relation, roles=relation == ROLE)


def _linked(asking: Asking, relation: str, *, roles: bool) -> Found:
    scored, source = _scored(asking, roles=roles)
    there = [(place, one[relation]) for place, one in enumerate(scored) if relation in one and one[relation].pairs]
    if len(there) < 2:
        raise NotAsked(f"{len(there)} of the sentences have {relation}")
    scores = [score for _, score in there]
    distances = sorted({offset for score in scores for offset in score.offsets})
    return Found(
        scores=scores,
        places=[place for place, _ in there],
        heads=np.array([[score.accuracy(way) for way in DIRECTIONS] for score in scores]),
        offsets=np.array([[score.offsets.get(each, 0) / score.pairs for each in distances] for score in scores]),
        data=f"{len(there)} {source}, with {relation}",
    )


def _scored(asking: Asking, *, roles: bool) -> tuple[list[Mapping[str, RelationScore]], str]:
    """Returns the scores of each sentence by relation, and where sentences are from, in words."""

    def ask(text: RelationText) -> Mapping[str, RelationScore]:
        return asking.client.score_relations(text, model=asking.model, timeout=asking.timeout).relations

    def make() -> tuple[list[Mapping[str, RelationScore]], str]:
        texts, source = _roles(asking) if roles else _dependencies(asking)
        return each(asking, texts, ask), source

    return asking.kept(f"scored {roles}", make)


def _dependencies(asking: Asking) -> tuple[list[RelationText], str]:
    """Returns sentences with their dependencies, without subtypes and punctuation, and with all of them as one relation."""
    texts = []
    bank = bank_of(asking)
    for sentence in bank.test[:MOST] if bank.generated else bank.test:
        text = relation_text(sentence, subtypes=False)
        pairs = [(name, source, target) for name, source, target in text.pairs if name != PUNCTUATION]
        together = [(ALL, source, target) for _, source, target in pairs]
        if pairs:
            texts.append(RelationText(text.text, [*pairs, *together], text.words))
    return texts, bank.source


def _roles(asking: Asking) -> tuple[list[RelationText], str]:
    """Returns sentences with the links of predicates and arguments that Kovaleva et al. 2019, section 4.2, would select: of
    generated sentences, or of a file of PropBank in --data."""
    files = [path for path in asking.data.files("*.conllu") if word_columns(path) > COLUMNS]
    if files:
        texts, source = [*read_propbank(files[0], limit=asking.data.limit)], f"sentences of {files[0].name} (--data)"
    elif bank_of(asking).generated:
        texts, source = [*map(_generated_roles, bank_of(asking).test)], bank_of(asking).source
    else:
        raise NotAsked("--data has no file of PropBank: a .conllu file whose words have more than ten columns")
    chosen = []
    for text in texts:
        pairs = [
            (name, predicate, argument)
            for role, predicate, argument in text.pairs
            for name in (ROLE, role)
            if (role in CORE or not files) and abs(predicate - argument) >= LEAST_DISTANCE
        ]
        if pairs and len(text.words or ()) <= MOST_WORDS:
            chosen.append(RelationText(text.text, list(dict.fromkeys(pairs)), text.words))
    return chosen if files else chosen[:MOST], source


def _generated_roles(sentence: Sentence) -> RelationText:
    """Returns a generated sentence with its roles, from a predicate to the head of its argument."""
    pairs = []
    for number, row in sentence.rows.items():
        role, head = misc(row).get("Role"), int(row[HEAD])
        if role and head:
            pairs.append((role, sentence.places[head], sentence.places[number]))
    return RelationText(sentence.text, pairs, sentence.spans)


def _together(asking: Asking) -> tuple[Values, list[int]]:
    """Returns the share of each sentence's words whose governor is found by the best head of their relation, and the numbers of
    the sentences."""
    whole = linked(asking, ALL)
    scored, _ = _scored(asking, roles=False)
    names = {name for one in scored for name in one if name != ALL}
    found = dict.fromkeys(whole.places, 0.0)
    for name in sorted(names):
        try:
            part = linked(asking, name)
        except NotAsked:
            continue
        shares, _ = crossed(_flat(part.heads[:, 1:]))
        for place, share, score in zip(part.places, shares, part.scores, strict=True):
            found[place] += share * score.pairs
    pairs = {place: score.pairs for place, score in zip(whole.places, whole.scores, strict=True)}
    return np.array([found[place] / pairs[place] for place in whole.places]), [*whole.places]


def _by_relation(asking: Asking, *, roles: bool) -> Grid:
    """Returns what heads make of each of the commonest relations, or roles, each chosen on other sentences: the share of pairs
    that the best head and the best fixed distance find, and the largest weight of a head, beside other words so far apart."""
    pairs = Counter[str]()
    for one in _scored(asking, roles=roles)[0]:
        pairs.update({name: score.pairs for name, score in one.items() if name not in (ALL, ROLE)})
    rows = {}
    for name, count in pairs.most_common(SHOWN):
        with suppress(NotAsked):
            found = _linked(asking, name, roles=roles)
            best = (crossed(_flat(found.heads))[0], crossed(found.offsets)[0], *_weighed(found.scores)[:2])
            rows[f"{name} ({count})"] = [float(np.nanmean(values)) if np.isfinite(values).any() else np.nan for values in best]
    kinds = ("head", "distance", "weight", "by chance")
    cells, names = [*rows.values()][::-1], [*rows][::-1]
    return grid(
        cells, "share of pairs found, largest weight", rows=names, columns=kinds, across="of the best one", down="relation"
    )


def _weighed(scores: Sequence[RelationScore], *, beyond_chance: bool = False) -> tuple[Values, Values, Choices]:
    """Returns the largest weight of each sentence by the head that gives most in other sentences, or most beyond chance, what
    it gives to other words at the same distance, and which one that is."""
    weights = np.array([[score.largest_weight(way) for way in DIRECTIONS] for score in scores])
    chance = np.array([[score.largest_weight_by_chance(way) for way in DIRECTIONS] for score in scores])
    _, chosen = crossed(_flat(weights - chance if beyond_chance else weights))
    scored, control = (_flat(each)[np.arange(len(scores)), chosen] for each in (weights, chance))
    return scored, control, chosen


def _flat(values: Values) -> Values:
    return values.reshape(len(values), -1)


def _names(chosen: Choices, values: Values) -> str:
    """Returns chosen heads in words, numbered layer:head, with their directions."""
    places = [np.unravel_index(index, values.shape[1:]) for index in chosen.tolist()]
    ways = DIRECTIONS[-values.shape[1] :]
    return chosen_names([f"{layer}:{head} {ways[int(way)]}" for way, layer, head in places])
