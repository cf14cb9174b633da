"""Measures what silenced heads and layers do to the masked-LM loss of plain sentences, sentence by sentence.

Of each sentence 15 % of the words are masked, at least one; the same ones whatever is silenced.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Literal

import numpy as np
from bertscope import LabelledTexts, MaskedLmLoss, Mode, Model, Site, SiteIntervention, block_attention, scale_site
from bertscope.questions.ablation.objectives import Objective
from bertscope.values.models import short_name

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, bootstrapped, halves, paired
from bertscope_workbench.papers.items.labelled import task_of
from bertscope_workbench.papers.measures import Between
from bertscope_workbench.papers.measures.relations import best_of_relations
from bertscope_workbench.papers.measures.sentences import Values, chosen_names, crossed, each, head_names, sentences, source
from bertscope_workbench.papers.pictures_data import bars, grid

HeadSet = Mapping[int, Sequence[int] | None]
"""Heads by layer; None for all of a layer."""
NO_MORE: Sequence[HeadSet] = [{0: [0]}]
"""The least that a sweep takes, where only the untouched loss is wanted."""
DRAWS = 5
"""Random sets that a set is compared with."""
LABELLED = 200
"""The most labelled texts."""
FEWEST_RESAMPLES = 100
"""Resamples of the server's intervals, which nothing reads: the fewest that it takes."""


def losses(
    asking: Asking,
    sets: Sequence[HeadSet],
    mode: Mode = "zero",
    interventions: Iterable[SiteIntervention] = (),
    model: Model | None = None,
) -> Values:
    """Returns [sentences, 1 + sets]: the loss of each sentence with nothing silenced, then with each set, nats."""
    objectives = [MaskedLmLoss(text, truncate=True) for text in sentences(asking)]
    return _scores(asking, objectives, "loss", sets, mode, interventions, model or asking.model)


def _scores(
    asking: Asking,
    objectives: Sequence[Objective],
    metric: str,
    sets: Sequence[HeadSet],
    mode: Mode,
    interventions: Iterable[SiteIntervention],
    model: Model,
) -> Values:
    """Returns [objectives, 1 + sets]: each objective's metric with nothing silenced, then with each set."""
    changes = [*interventions]
    return np.array(each(asking, objectives, lambda one: _score(asking, one, metric, sets, mode, changes, model)))


def _score(
    asking: Asking,
    objective: Objective,
    metric: str,
    sets: Sequence[HeadSet],
    mode: Mode,
    changes: Sequence[SiteIntervention],
    model: Model,
) -> list[float]:
    """Returns an objective's metric with nothing silenced, then with each set; `changes` hold for all."""
    table = asking.client.sweep_heads(
        objective,
        model=model,
        mode=mode,
        sets=sets,
        interventions=changes,
        resamples=FEWEST_RESAMPLES,
        timeout=asking.timeout,
    ).table()
    found = {effect.name: effect.metrics[metric].score for effect in table.effects}
    return [table.baseline[metric], *(found[_name(model, heads)] for heads in sets)]


def untouched(asking: Asking) -> Values:
    """Returns the loss of each sentence with nothing silenced, nats."""
    return asking.kept("losses", lambda: losses(asking, NO_MORE))[:, 0]


def knows(asking: Asking) -> Measured:
    """Measures by how much the loss at masked words is below that of a model that finds all pieces of its vocabulary equally
    likely, nats."""
    own = untouched(asking)
    return paired(
        math.log(asking.model.vocabulary_size) - own,
        data=source(asking, len(own)),
        picture=bars("loss, nats", {"model": own.mean(), "all pieces alike": math.log(asking.model.vocabulary_size)}),
    )


def best_to_silence(
    asking: Asking, *, scope: Literal["heads", "layers"], mode: Mode = "zero", of: Literal["words", "labels"] = "words"
) -> Measured:
    """Measures by how much the loss falls without the head, or without all heads of the layer, that did most harm on other
    sentences (Kovaleva et al. 2019, section 4.6; Michel et al. 2019, section 3).

    With `of` "labels", by how much the accuracy of a classifier rises, on the labelled texts of --data that have its labels;
    the classifier is the fine-tuned copy, or the model itself.
    """
    if of == "labels":
        labelled, model = task_of(asking)
        if "interventions" not in model.capabilities:
            raise NotAsked(f"heads of {short_name(model)} can't be changed (capability interventions)")
        texts = [LabelledTexts([item], truncate=True) for item in labelled.items[:LABELLED]]
        sets = _sets(model, scope)
        found = asking.kept(f"accuracy {scope} {mode}", lambda: _scores(asking, texts, "accuracy", sets, mode, (), model))
        benefits, unit = found[:, 1:] - found[:, :1], "rise of the accuracy"
        data = f"{len(texts)} texts of {labelled.path.name} (--data), labelled by {short_name(model)}"
    else:
        found, model = _swept(asking, scope, mode), asking.model
        benefits, unit, data = found[:, :1] - found[:, 1:], "fall of the loss, nats", source(asking, len(found))
    scored, best = crossed(benefits)
    heads, columns = (model.heads, None) if scope == "heads" else (1, ["all heads"])
    means = benefits.mean(0)
    return paired(
        scored,
        bounds=(-1, 1) if of == "labels" else (-math.inf, math.inf),
        data=data,
        picture=grid(means.reshape(-1, heads).tolist(), unit, columns=columns),
        notes=[
            head_names(best, heads) if scope == "heads" else chosen_names([f"layer {layer}" for layer in best]),
            f"untouched {found[:, 0].mean():.3f}; better without for {(means > 0).sum()} of {means.size} {scope}",
        ],
    )


def one_head_left(asking: Asking) -> Measured:
    """Measures the rise of the loss when a layer keeps one head, the best one on other sentences: the median layer's (Michel
    et al. 2019, section 3.3)."""
    layers, heads = asking.model.layers, asking.model.heads
    if heads < 2:
        raise NotAsked("layers of this model have one head")
    sets: list[HeadSet] = [
        {layer: [head for head in range(heads) if head != kept]} for layer in range(layers) for kept in range(heads)
    ]
    found = asking.kept("one head left", lambda: losses(asking, sets))
    rises = (found[:, 1:] - found[:, :1]).reshape(-1, layers, heads)
    scored = np.stack([-crossed(-rises[:, layer])[0] for layer in range(layers)], axis=1)
    rows = {f"layer {layer}": float(scored[:, layer].mean()) for layer in range(layers)}
    return bootstrapped(
        lambda items: float(np.median(scored[items].mean(0))),
        len(scored),
        data=source(asking, len(scored)),
        picture=bars("rise of the loss with one head left, nats", rows),
        notes=["the head that stays is chosen on one half of the sentences and scored on the other, both ways"],
    )


def all_silenced(asking: Asking) -> Measured:
    """Measures the rise of the loss when no head of any layer contributes."""
    found = losses(asking, [dict.fromkeys(range(asking.model.layers))])
    return paired(found[:, 1], found[:, 0], data=source(asking, len(found)))


def least_important(asking: Asking, *, share: Annotated[float, Between(0, 1)]) -> Measured:
    """Measures the rise of the loss without a share of the heads, the least important ones by gradients on other sentences
    (Michel et al. 2019, section 4)."""
    texts, scored = sentences(asking), np.full((len(sentences(asking)), 2), np.nan)
    rankings: list[HeadSet] = []
    first, second = halves(len(texts))
    for chosen_on in (first, second):
        objective = MaskedLmLoss([texts[index] for index in chosen_on], truncate=True)
        ranking = asking.client.rank_heads(objective, model=asking.model, timeout=asking.timeout)
        rankings.append(dict(ranking.least(share=share)))
    found = losses(asking, rankings)
    scored[second], scored[first] = found[second][:, [0, 1]], found[first][:, [0, 2]]
    return paired(
        scored[:, 1],
        scored[:, 0],
        data=source(asking, len(scored)),
        picture=bars("loss, nats", {"all heads": scored[:, 0].mean(), f"{1 - share:.0%} of the heads": scored[:, 1].mean()}),
    )


def layers_beside_heads(asking: Asking, *, whole: bool) -> Measured:
    """Measures the rise of the loss without one layer, mean over layers, beside the rise without as many heads as a layer has,
    spread over all layers at random, mean over as many draws as there are layers.

    With `whole` the layer is skipped, its feed-forward block too; else only its heads are silenced. Each head is in one draw.
    """
    layers = asking.model.layers
    draws = spread_sets(layers, asking.model.heads)
    found = asking.kept("spread heads", lambda: losses(asking, draws))
    spread = found[:, 1:].mean(1) - found[:, 0]
    if whole:
        skipped = [losses(asking, NO_MORE, interventions=_without(layer)) for layer in range(layers)]
        removed = np.stack([one[:, 0] for one in skipped], axis=1)
    else:
        removed = _swept(asking, "layers", "zero")[:, 1:]
    rises = removed - found[:, :1]
    rows = {f"layer {layer}": float(rises[:, layer].mean()) for layer in range(layers)}
    return paired(
        rises.mean(1),
        spread,
        data=source(asking, len(found)),
        picture=bars("rise of the loss, nats", rows | {"spread heads": float(spread.mean())}),
    )


def relation_heads(asking: Asking, *, relations: Sequence[str]) -> Measured:
    """Measures the rise of the loss without the heads that find most pairs of some relations, beside as many random heads of
    the same layers, mean over draws (Kovaleva et al. 2019, section 5).

    The heads are chosen on sentences of the treebank, and the loss is that of other sentences.
    """
    best = best_of_relations(asking, relations)
    generator = np.random.default_rng(0)
    draws: list[HeadSet] = [{**best}]
    for _ in range(DRAWS):
        draw = {}
        for layer, heads in best.items():
            others = [head for head in range(asking.model.heads) if head not in heads]
            draw[layer] = sorted(generator.permutation(others)[: len(heads)].tolist())
        draws.append({layer: heads for layer, heads in draw.items() if heads})
    found = losses(asking, draws)
    rises = found[:, 1:] - found[:, :1]
    names = ", ".join(f"{layer}:{head}" for layer, heads in sorted(best.items()) for head in heads)
    rows = {"heads of relations": rises[:, 0].mean(), "random heads of their layers": rises[:, 1:].mean()}
    return paired(
        rises[:, 0],
        rises[:, 1:].mean(1),
        data=source(asking, len(found)),
        picture=bars("rise of the loss, nats", {name: float(value) for name, value in rows.items()}),
        notes=[f"the heads of {', '.join(relations)}: {names}"],
    )


def separator_blocked(asking: Asking) -> Measured:
    """Measures the rise of the loss when no token of the upper half of the layers can look at the last special token, [SEP]:
    what the attention to it is needed for."""
    own = untouched(asking)
    upper = range(asking.model.layers // 2, asking.model.layers)

    def ask(text: str) -> float:
        (maps,) = asking.client.extract_attention([text], model=asking.model, layers=[0], heads=[0], timeout=asking.timeout)
        last = len(maps.tokens) - 1
        if not maps.tokens[last].special:
            raise NotAsked("the tokenizer adds no special token at the end")
        changes = [block_attention(layer, queries="all", keys=[last]) for layer in upper]
        objective = MaskedLmLoss(text, truncate=True)
        return _score(asking, objective, "loss", NO_MORE, "zero", changes, asking.model)[0]

    blocked = each(asking, sentences(asking), ask)
    return paired(blocked, own, data=source(asking, len(own)))


def spread_sets(layers: int, heads: int, seed: int = 0) -> list[HeadSet]:
    """Returns as many sets of `heads` heads as there are layers, spread as evenly over the layers as can be.

    Each head is in one set.
    """
    generator = np.random.default_rng(seed)
    orders = [generator.permutation(heads).tolist() for _ in range(layers)]
    dealt = iter((layer, orders[layer][turn]) for turn in range(heads) for layer in range(layers))
    sets: list[HeadSet] = []
    for _ in range(layers):
        drawn: dict[int, list[int]] = {}
        for layer, head in sorted(islice(dealt, heads)):
            drawn.setdefault(layer, []).append(head)
        sets.append({layer: tuple(own) for layer, own in drawn.items()})
    return sets


def _swept(asking: Asking, scope: Literal["heads", "layers"], mode: Mode) -> Values:
    """Returns [sentences, 1 + heads or layers] losses."""
    return asking.kept(f"swept {scope} {mode}", lambda: losses(asking, _sets(asking.model, scope), mode))


def _sets(model: Model, scope: Literal["heads", "layers"]) -> list[HeadSet]:
    """Returns each head, or each layer, of a model as a set of its own."""
    if scope == "layers":
        return [{layer: None} for layer in range(model.layers)]
    return [{layer: [head]} for layer in range(model.layers) for head in range(model.heads)]


def _without(layer: int) -> list[SiteIntervention]:
    """Returns the changes that skip a layer: neither of its blocks adds anything."""
    sites: tuple[Site, ...] = ("attention", "feed_forward")
    return [scale_site(layer, site=site, factor=0) for site in sites]


def _name(model: Model, heads: HeadSet) -> str:
    """Returns the name that an effect of a set has."""
    everything = range(model.heads)
    return "+".join(f"{layer}:{','.join(map(str, own or everything))}" for layer, own in sorted(heads.items()))
