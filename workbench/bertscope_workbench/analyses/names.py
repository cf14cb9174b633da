"""The person name filter of LAMA-UHN: facts that a model guesses from a person's name (Poerner et al. 2020).

For each part of a subject's name, a model is asked in which city, country or language it is common. A fact whose object is
among the three likeliest answers for any part is one that the name gives away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from bertscope import Client, Model
from bertscope.questions.facts.answers import Fact, FactRelation, FactResult
from bertscope.rpc.async_many_texts import OnTexts
from bertscope.values.interventions import Interventions

__all__ = ["guess_by_name"]

NAME_NOUNS: Mapping[str, str] = MappingProxyType(
    {
        "/people/person/place_of_birth": "city",
        "/people/deceased_person/place_of_death": "city",
        "place_of_birth": "city",
        "place_of_death": "city",
        "P19": "city",
        "P20": "city",
        "P27": "country",
        "P103": "language",
        "P1412": "language",
    }
)
"""The kind of thing that a name may give away, by relation: those of Google-RE and T-REx that the authors filter."""

TOP = 3
"""The likeliest answers that count."""


def name_questions(facts: Sequence[Fact], nouns: Mapping[str, str]) -> tuple[list[int], list[Fact], list[FactRelation]]:
    """Returns the questions about the names of facts: for each the index of its fact; and their relations, one for each
    noun."""
    numbers, questions = [], []
    for index, fact in enumerate(facts):
        if fact.relation in nouns:
            for part in dict.fromkeys(fact.subject.split()):
                numbers.append(index)
                questions.append(Fact(part, fact.objects, nouns[fact.relation]))
    used = dict.fromkeys(question.relation for question in questions)
    return numbers, questions, [FactRelation(noun, f"[X] is a common name in the following {noun} : [Y] .") for noun in used]


def guessed(numbers: Sequence[int], results: Iterable[FactResult]) -> frozenset[int]:
    """Returns the indices of the facts that a part of the name gives away."""
    return frozenset(
        number
        for number, result in zip(numbers, results, strict=True)
        if any(answer.rank is not None and answer.rank <= TOP for answer in result.answers)
    )


def guess_by_name(
    client: Client,
    facts: Iterable[Fact],
    *,
    nouns: Mapping[str, str] = NAME_NOUNS,
    model: str | Model | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    on_progress: OnTexts | None = None,
    timeout: float | None = None,
) -> frozenset[int]:
    """Returns the indices of the facts that the subject's name gives away: the person name filter of LAMA-UHN (Poerner et
    al. 2020).

    "Jean is a common name in the following language : [MASK] ." is asked for each part of a name; a fact whose object is
    among the three likeliest answers for any part is easy to guess. `nouns` says what names of a relation may give away;
    facts of other relations are not asked about.
    """
    numbers, questions, relations = name_questions(list(facts), nouns)
    if not questions:
        return frozenset()
    answers = client.query_facts(
        questions,
        relations,
        model=model,
        top_k=0,
        interventions=interventions,
        reference_texts=reference_texts,
        on_progress=on_progress,
        timeout=timeout,
    )
    return guessed(numbers, answers.results)
