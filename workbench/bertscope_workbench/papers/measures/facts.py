"""Measures facts at masks: beside the best constant answer, from names alone, and over two steps."""

import importlib.resources
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

import numpy as np
from bertscope import Fact, FactRelation
from bertscope.values.display import record

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.claim_files import shipped_reproduction
from bertscope_workbench.papers.estimates import Measured, NotAsked, Values, paired
from bertscope_workbench.papers.items import knowledge
from bertscope_workbench.papers.measures.fillings import log_probabilities
from bertscope_workbench.papers.pictures_data import bars
from bertscope_workbench.papers.published.item_kinds import Known
from bertscope_workbench.papers.published.outcomes import ask_facts
from bertscope_workbench.papers.published.readers import read_questions

SHARES = (-1.0, 1.0)
CONTINENTS = ("Africa", "America", "Asia", "Australia", "Europe")
WORLD = "countries and capitals of the CIA World Factbook, public domain; continents and languages, public facts"


@record
class Relation:
    """A relation of the facts that ship, with two sentences that ask for it."""

    templates: tuple[str, str]
    objects: Mapping[str, str]
    """By subject: its object."""
    candidates: tuple[str, ...] = ()
    """Objects to rank among; none mean the whole vocabulary."""


def above_constant(asking: Asking, *, relation: Literal["country", "capital", "continent", "language"]) -> Measured:
    """Returns the share of a shipped relation's facts that a model gives first among its whole vocabulary (P@1), beside that
    of always the commonest object (Petroni et al. 2019, section 4.3).

    Objects that are not single pieces are left out, as in LAMA.
    Raises NotAsked if none is left.
    """
    known = _relations()[relation]
    right = _right(asking, known, ranked_among_all=True)[0]
    subjects = [subject for subject in known.objects if subject in right]
    objects = [known.objects[subject] for subject in subjects]
    control = _constant(objects, ["" for _ in objects])
    own = np.array([right[subject] for subject in subjects], np.float64)
    if not subjects:
        raise NotAsked("no object is a single piece of the vocabulary")
    left = len(known.objects) - len(subjects)
    return paired(
        own,
        control,
        bounds=SHARES,
        data=f"{len(subjects)} facts ({WORLD}), asked by {known.templates[0]!r}",
        picture=bars("P@1", {"model": float(own.mean()), "always the commonest object": float(control.mean())}),
        notes=[f"{left} facts left out: their object is no single piece of the vocabulary"] if left else [],
    )


def published_above_constant(asking: Asking) -> Measured:
    """Returns the same of LAMA's T-REx in the folder of --data: the mean over facts, as the study "facts" reads them; each
    relation has its own commonest object. Raises NotAsked without such files."""
    part = shipped_reproduction("facts", "trex")
    if not asking.data.files(*(pattern.split("/")[-1] for pattern in part.files)):
        raise NotAsked(
            "it needs T-REx of LAMA or ParaRel (P36.jsonl and others, with their templates); name its folder with --data"
        )
    folders = {path.parent for path in asking.data.files("P[0-9]*.jsonl")}
    items = [item for folder in sorted(folders) for item in read_questions(part, folder, asking.data.limit).read.items]
    known = [item for item in items if isinstance(item, Known)]
    asked = ask_facts(asking.rows, "facts", asking.model, known, asking.show)
    kept = [(item, outcome) for item, outcome in zip(known, asked, strict=True) if not outcome.skipped]
    own = np.array([outcome.rank == 1 for _, outcome in kept], np.float64)
    relations = [item.relation.name for item, _ in kept]
    control = _constant([next(iter(item.fact.objects)) for item, _ in kept], relations)
    rows = {
        name: float(np.mean([value for value, each in zip(own, relations, strict=True) if each == name]))
        for name in dict.fromkeys(relations)
    }
    data = f"{len(kept)} facts of {len(rows)} relations of T-REx, as published"
    return paired(own, control, bounds=SHARES, data=data, picture=bars("P@1", rows))


def nationality_from_name(asking: Asking) -> Measured:
    """Returns the share of names from which the right nationality comes out first among those of names.tsv, beside one in as
    many ("Mario Rossi is a [MASK] citizen."; after Poerner et al. 2019). Names of a country are averaged."""
    nationalities = knowledge.nationalities()
    items = knowledge.citizens()
    scores = log_probabilities(asking, ((text, word) for _, _, text in items for word in nationalities))
    own, countries = list[float](), list[str]()
    for country, right, text in items:
        found = {word: scores[text, word] for word in nationalities if (text, word) in scores}
        own.append(float(max(found, key=found.__getitem__) == right) if right in found else float("nan"))
        countries.append(country)
    by_country = {
        each: float(np.nanmean([value for value, name in zip(own, countries, strict=True) if name == each]))
        for each in dict.fromkeys(countries)
    }
    chance = 1 / len(nationalities)
    return paired(
        own,
        chance,
        groups=countries,
        bounds=SHARES,
        data=f"{len(items)} sentences about {len(items) // 2} names of {len(nationalities)} countries (our own, Apache-2.0)",
        picture=bars("share right", by_country, line=chance),
    )


def two_steps(asking: Asking) -> Measured:
    """Returns how often a model knows the continent or the language of a capital, beside how often it knows both steps to it,
    the country of the capital and the country's continent or language.

    Only capitals of which it has both steps right by one sentence are asked. As such a choice flatters the steps, they are
    asked again by another sentence, and so count. All ranks are among the candidates of the relation. The two questions about a
    capital are averaged. Raises NotAsked if it has no capital's steps right.
    """
    relations = _relations()
    first = _right(asking, relations["country"])
    value, control, capitals = list[float](), list[float](), list[str]()
    for name in ("continent", "language"):
        second, whole = _right(asking, relations[f"country's {name}"]), _right(asking, relations[f"capital's {name}"])
        for capital, country in relations["country"].objects.items():
            if first[0].get(capital) and second[0].get(country) and capital in whole[0]:
                value.append((whole[0][capital] + whole[1][capital]) / 2)
                control.append(float(first[1][capital] and second[1][country]))
                capitals.append(capital)
    if not value:
        raise NotAsked("there is no capital whose country, and that country's continent or language, the model has right")
    groups: Sequence[Hashable] = capitals
    return paired(
        value,
        control,
        groups=groups,
        bounds=SHARES,
        data=f"{len(value)} questions about {len(set(capitals))} capitals of which both steps are known ({WORLD})",
        picture=bars("share right", {"in two steps": float(np.mean(value)), "both single steps": float(np.mean(control))}),
    )


def _relations() -> dict[str, Relation]:
    folder = importlib.resources.files("bertscope_workbench.papers").joinpath("reproductions")
    lines = [line.split("\t") for line in folder.joinpath("capitals.tsv").read_text("utf-8").splitlines()[1:]]
    countries = {capital: country for country, capital in reversed(lines)}  # of two Kingstons, Jamaica's
    continents, languages = knowledge.listed("continents.tsv", "continent"), knowledge.listed("languages.tsv", "language")
    spoken = tuple(dict.fromkeys(languages.values()))
    on = "on the continent of [Y]."
    return {
        "country": Relation(
            ("[X] is the capital of [Y].", "[X] is the capital city of [Y]."),
            countries,
            tuple(dict.fromkeys(countries.values())),
        ),
        "capital": Relation(("The capital of [X] is [Y].", "The capital city of [X] is [Y]."), dict(lines)),
        "continent": Relation(("[X] is a country in [Y].", "[X] lies in [Y]."), continents),
        "language": Relation(("The official language of [X] is [Y].", "People in [X] speak [Y]."), languages),
        "country's continent": Relation((f"[X] is {on}", f"[X] lies {on}"), continents, CONTINENTS),
        "capital's continent": Relation((f"[X] is {on}", f"[X] lies {on}"), _through(countries, continents), CONTINENTS),
        "country's language": Relation(("The language of [X] is [Y].", "People in [X] speak [Y]."), languages, spoken),
        "capital's language": Relation(
            ("The language of [X] is [Y].", "People in [X] speak [Y]."), _through(countries, languages), spoken
        ),
    }


def _through(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    return {subject: second[middle] for subject, middle in first.items() if middle in second}


def _right(asking: Asking, relation: Relation, *, ranked_among_all: bool = False) -> tuple[dict[str, bool], dict[str, bool]]:
    """Returns for each of the relation's two sentences, by subject, whether the right object comes first; subjects that are
    not asked have none."""
    facts = [Fact(subject, right) for subject, right in relation.objects.items()]
    asked = FactRelation("relation", relation.templates, candidates=() if ranked_among_all else relation.candidates)
    answers = asking.client.query_facts_stream(
        facts, asked, model=asking.model, on_rejected=asking.rejected, timeout=asking.timeout
    )
    found: tuple[dict[str, bool], dict[str, bool]] = {}, {}
    for done, answer in enumerate(answers, start=1):
        asking.show(done, len(facts))
        if not answer.skipped:
            for place, kept in enumerate(found):
                kept[answer.fact.subject] = answer.answer(place).rank == 1
    return found


def _constant(objects: Sequence[str], relations: Sequence[str]) -> Values:
    """Returns for each fact 1 if its object is the commonest of its relation, else 0."""
    counts: dict[str, Counter[str]] = {}
    for name, each in zip(relations, objects, strict=True):
        counts.setdefault(name, Counter())[each] += 1
    commonest = {name: own.most_common(1)[0][0] for name, own in counts.items()}
    return np.array([commonest[name] == each for name, each in zip(relations, objects, strict=True)], np.float64)
