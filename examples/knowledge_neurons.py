"""Find the neurons of facts in some prompts, and change them in others: does the answer become unlikely, or likelier?

    bertscope serve --runtime torch
    python -m examples.knowledge_neurons 127.0.0.1:50051

For each capital that the model knows, neurons are found in three prompts (Dai et al. 2022). They are silenced, and doubled, in
three other prompts of the same fact; so are as many random neurons of the same layers.
"""

import math
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import bertscope
from bertscope import Answer, Client, Fact, FactRelation, SiteIntervention, scale_site

CAPITALS = Path(__file__).with_name("countries.tsv")
FOUND_IN = ("The capital of {} is [MASK].", "The capital city of {} is [MASK].", "{}, with the capital [MASK].")
SCORED_IN = FactRelation("capital", ("[Y] is the capital of [X].", "[X]'s capital is [Y].", "[Y] is the capital city of [X]."))
FACTS, TOP = 20, 20


def known(client: Client) -> list[tuple[str, str]]:
    """Return the countries and capitals that the model knows best among those it can name."""
    rows = [line.split("\t") for line in CAPITALS.read_text(encoding="utf-8").splitlines()[1:]]
    answers = client.query_facts([Fact(country, capital) for country, capital in rows], [SCORED_IN])
    found = zip(rows, answers, strict=True)
    likely = [(mean_log(answer), country, capital) for (country, capital), answer in found if answer.skipped is None]
    return [(country, capital) for _, country, capital in sorted(likely, reverse=True)[:FACTS]]


def mean_log(found: bertscope.FactResult) -> float:
    """Return the mean log-probability of the right object over templates."""
    return statistics.mean(answer.log_probability or 0.0 for answer in found.answers)


def probability(client: Client, fact: Fact, changes: Sequence[SiteIntervention] = ()) -> float:
    """Return the mean probability of the right object in the other prompts, with some changes."""
    (found,) = client.query_facts([fact], [SCORED_IN], interventions=changes)
    return statistics.mean(math.exp(answer.log_probability or 0.0) for answer in found.answers)


def at_random(changes: Sequence[SiteIntervention], factor: float, size: int, chance: random.Random) -> list[SiteIntervention]:
    """Return changes of as many random neurons of the same layers."""
    drawn = [(one.layer, sorted(chance.sample(range(size), len(one.units or ())))) for one in changes]
    return [scale_site(layer, units, factor=factor, positions="masks") for layer, units in drawn]


def main(target: str) -> None:
    """Print how much the probability changes, as the median over facts."""
    chance = random.Random(0)  # noqa: S311 - the same neurons every time
    ratios: dict[str, list[float]] = {}
    with Client(target) as client:
        size = client.get_model().hidden_size  # a layer has more neurons than its states are long
        for country, capital in known(client):
            fact, prompts = Fact(country, capital), [prompt.format(country) for prompt in FOUND_IN]
            found = client.find_neurons(prompts, Answer(capital, scale="probability"), top=5 * TOP)
            untouched = probability(client, fact)
            for name, factor in (("silenced", 0.0), ("doubled", 2.0)):
                changes = found.changes(factor, top=TOP)
                for what, used in ((name, changes), (f"{name}, random", at_random(changes, factor, size, chance))):
                    ratios.setdefault(what, []).append(probability(client, fact, used) / untouched - 1)
    for what, changed in ratios.items():
        print(f"{what:20} {100 * statistics.median(changed):+6.1f} %  (median of {len(changed)} facts)")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051")
