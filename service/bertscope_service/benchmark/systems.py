"""The recipes of the published systems: shape, steps and baseline of each.

Weights are random: only speed and size are measured, never the retained performance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bertscope_service.benchmark.published import Published, published_figures
from bertscope_service.benchmark.shapes import Recurrent, Transformer
from bertscope_service.checkpoints.steps import (
    EliminateTokens,
    Int8,
    PruneMagnitude,
    RemoveFeedForward,
    RemoveHeads,
    Step,
    WeightOnly,
)
from bertscope_service.errors import InvalidArgument

BERT_BASE = Transformer("bert", 12, 768, 3072, 12)
BERT_LARGE = Transformer("bert", 24, 1024, 4096, 16)
SIX_LAYERS = Transformer("bert", 6, 768, 3072, 12)

BASELINES: Mapping[str, Transformer] = {
    "BERT-base": BERT_BASE,
    "BERT-large": BERT_LARGE,
    "mBERT": Transformer("bert", 12, 768, 3072, 12, vocabulary=119_547),
}
"""The baselines of the systems."""

POWER_BERT_KEPT = (153, 125, 111, 105, 85, 80, 72, 48, 35, 27, 22, 5)
"""Vectors that remain after each layer, of 256: learned for RTE by Goyal et al. 2020, section 3."""

HALF_OF_THE_HEADS = {layer: tuple(range(8)) for layer in range(24)}
"""Half of BERT-large's heads. The choice makes no difference to size or speed."""

DENSE = "the published compression counts the weights that are left; here zeros are stored like others"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A shape and its steps. `remark` names differences from the paper, or explains its figures.

    heavy: as large as BERT-large, or compared with it.
    """

    shape: Transformer | Recurrent
    steps: tuple[Step, ...] = ()
    baseline: str = "BERT-base"
    remark: str = ""
    heavy: bool = False


@dataclass(frozen=True, slots=True)
class System:
    """A published system with its recipe, or the reason for its absence (`recipe` None)."""

    published: Published
    recipe: Recipe | None
    not_measured: str = ""

    @property
    def heavy(self) -> bool:
        return self.recipe is not None and self.recipe.heavy


RECIPES: Mapping[str, Recipe] = {
    "BERT-base": Recipe(BERT_BASE, remark="measured against another copy of itself, so the ratios show what chance does"),
    "BERT-small": Recipe(Transformer("bert", 4, 512, 2048, 8)),
    "DistilBERT": Recipe(Transformer("distilbert", 6, 768, 3072, 12)),
    "BERT6-PKD": Recipe(SIX_LAYERS),
    "BERT3-PKD": Recipe(Transformer("bert", 3, 768, 3072, 12)),
    "Aguilar 2019, exp. 3": Recipe(SIX_LAYERS),
    "BERT-48": Recipe(Transformer("bert", 12, 48, 192, 12, vocabulary=4928)),
    "BERT-192": Recipe(Transformer("bert", 12, 192, 768, 12, vocabulary=4928)),
    "TinyBERT": Recipe(Transformer("bert", 4, 312, 1200, 12)),
    "MobileBERT": Recipe(
        Transformer("mobilebert", 24, 512, 512, 4),
        remark="its masked-LM head has 11.7 million weights of its own, which are counted here and not in the published size",
    ),
    "PD": Recipe(SIX_LAYERS, remark="the published speed-up is over BERT-large, this one over BERT-base"),
    "MiniLM": Recipe(SIX_LAYERS),
    "MiniBERT": Recipe(Transformer("bert", 3, 256, 1024, 4, vocabulary=119_547), baseline="mBERT"),
    "BiLSTM-soft": Recipe(
        Recurrent(),
        remark="it classifies; the published speed-up is over BERT-large, this one over BERT-base, and the published "
        "compression seems to leave word embeddings out, which are counted here",
    ),
    "Q-BERT-MP": Recipe(BERT_BASE, (WeightOnly(2, 0),), remark="2 bits in all layers, where the paper chooses 2 to 4 for each"),
    "BERT-QAT / Q8BERT": Recipe(BERT_BASE, (Int8(),)),
    "GOBO": Recipe(BERT_BASE, (WeightOnly(3, 0),)),
    "McCarley 2020, ff2": Recipe(
        BERT_LARGE,
        (RemoveHeads(HALF_OF_THE_HEADS), RemoveFeedForward(0.65)),
        baseline="BERT-large",
        remark="shares chosen here to reach the published size",
        heavy=True,
    ),
    "RPP": Recipe(BERT_LARGE, (PruneMagnitude(0.41),), baseline="BERT-large", remark=DENSE, heavy=True),
    "Soft MvP": Recipe(BERT_BASE, (PruneMagnitude(0.97),), remark=DENSE),
    "IMP": Recipe(BERT_BASE, (PruneMagnitude(0.5),), remark=DENSE),
    "ALBERT-base": Recipe(Transformer("albert", 12, 768, 3072, 12, vocabulary=30_000)),
    "ALBERT-xxlarge": Recipe(Transformer("albert", 12, 4096, 16_384, 64, vocabulary=30_000), heavy=True),
    "BERT-of-Theseus": Recipe(SIX_LAYERS),
    "PoWER-BERT": Recipe(
        BERT_BASE,
        (EliminateTokens(tuple(kept / 256 for kept in POWER_BERT_KEPT)),),
        remark="with the shares that the paper learned for RTE at 256 tokens",
    ),
}
"""The recipes by system."""

NOT_MEASURED: Mapping[str, str] = {
    "WaLDORf": "it has convolutions inside its layers, an architecture that transformers, and so bertscope, doesn't have",
}
"""The reasons for systems without a recipe."""


@cache
def all_systems() -> tuple[System, ...]:
    """Returns every row of the table, in its order."""
    return tuple(
        System(figures, RECIPES.get(figures.name), NOT_MEASURED.get(figures.name, "")) for figures in published_figures()
    )


def choose_systems(names: Sequence[str], *, heavy: bool) -> tuple[System, ...]:
    """Returns the named systems, in the order given; names are as published, or without the paper in parentheses.

    No names mean all systems; the heavy ones only with `heavy`. Raises InvalidArgument for a name that is unknown or given
    twice.
    """
    if not names:
        return tuple(system for system in all_systems() if heavy or not system.heavy)
    known = {name: system for system in all_systems() for name in (system.published.system, system.published.name)}
    chosen: list[System] = []
    for index, name in enumerate(names):
        field = f"systems[{index}]"
        if name not in known:
            short = "; ".join(system.published.name for system in all_systems())
            raise InvalidArgument(field, f"{field} {name!r} is unknown; known: {short}", "UNKNOWN_SYSTEM")
        if known[name] in chosen:
            raise InvalidArgument(field, f"{field} names {name} a second time; name each system once", "DUPLICATE")
        chosen.append(known[name])
    return tuple(chosen)
