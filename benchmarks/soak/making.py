"""Runs operators that load, replace, compress, prune and unload models side by side, and check each model's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import bertscope
import numpy as np
from bertscope.questions.compression.steps import Step

from benchmarks.lib.fillings import TOLERANCE, Filling, fillings
from benchmarks.soak.tally import ALWAYS, OK, Tally, counted

MAKE_SECONDS = 300.0
"""The longest time of a load or a compression on a busy machine."""

TEXTS = ("Paris is the capital of [MASK].", "The [MASK] barked all night long in the rain.", "[MASK].")
CANDIDATES = ("france", "dog", "water", "the", "unplayable")
"""The same words in every model, so that models in few bits can be compared, too."""

HALF_TOLERANCE = 0.3
"""Nats; tolerance of log-probabilities in 16 or fewer bits, whose rounding depends on the shape of a batch."""

CANCELLED_SHARE = 0.15
"""Share of loads and compressions that are cancelled half-way."""

CANCEL_SECONDS = 1.0
"""The mean time after which they are cancelled."""

REPLACED_SHARE = 0.5
"""Share of the models that are replaced before they are unloaded."""

FORMATS: tuple[tuple[bertscope.Runtime, bertscope.Precision], ...] = (
    ("torch", "fp32"),
    ("onnx", "fp32"),
    ("torch", "fp16"),
    ("torch", "bf16"),
)
"""The runtimes and number formats in which checkpoints are loaded."""

Make = Callable[[bertscope.AsyncClient, str], Awaitable[bertscope.Model]]
"""Makes a model of some name, "models/{id}"."""


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """One way to make a model. `tolerance`: the allowed difference of log-probabilities from the true ones, nats."""

    kind: str
    make: Make
    tolerance: float = TOLERANCE
    replaces: bool = False
    """True if it can take the name of an existing model."""


def recipes(folders: Sequence[Path], source: str) -> list[Recipe]:
    """Returns loads of checkpoints by both runtimes in all number formats, and all compressions of the hosted model
    `source`."""
    found = []
    for number, folder in enumerate(folders, 1):
        for runtime, precision in FORMATS:
            kind = f"LoadModel, checkpoint {number}, {runtime} {precision}"
            load = partial(_load, folder, runtime, precision)
            found.append(Recipe(kind, load, TOLERANCE if precision == "fp32" else HALF_TOLERANCE, replaces=True))
    steps: list[tuple[str, list[Step], float]] = [
        ("half fp16", [bertscope.half("fp16")], HALF_TOLERANCE),
        ("half bf16", [bertscope.half("bf16")], HALF_TOLERANCE),
        ("layers", [bertscope.keep_layers([0, 1])], TOLERANCE),
        ("int8", [bertscope.int8()], HALF_TOLERANCE),
        ("onnx", [bertscope.onnx()], TOLERANCE),
        ("layers, onnx, int8", [bertscope.keep_layers([0, 1]), bertscope.onnx(), bertscope.int8()], HALF_TOLERANCE),
        ("weight-only", [bertscope.weight_only(8)], TOLERANCE),
        ("magnitude", [bertscope.magnitude(0.2)], TOLERANCE),
    ]
    found += [Recipe(f"CompressModel, {kind}", partial(_compress, source, done), bound) for kind, done, bound in steps]
    found.append(Recipe("PruneHeads", partial(_prune, source)))
    return found


async def _load(
    folder: Path, runtime: bertscope.Runtime, precision: bertscope.Precision, client: bertscope.AsyncClient, name: str
) -> bertscope.Model:
    return await client.load_model(
        name, source=str(folder), runtime=runtime, precision=precision, replace=True, timeout=MAKE_SECONDS
    )


async def _compress(source: str, steps: Sequence[Step], client: bertscope.AsyncClient, name: str) -> bertscope.Model:
    return await client.compress_model(name, steps, model=source, timeout=MAKE_SECONDS)


async def _prune(source: str, client: bertscope.AsyncClient, name: str) -> bertscope.Model:
    return await client.prune_heads(name, {0: [1, 2], 1: [0]}, model=source, timeout=MAKE_SECONDS)


async def fill(client: bertscope.AsyncClient, name: str) -> list[Filling]:
    """Queries a model that was made."""
    return fillings(await client.fill_mask(TEXTS, candidates=CANDIDATES, model=name, timeout=MAKE_SECONDS))


async def true_fillings(asked: Sequence[Recipe], client: bertscope.AsyncClient) -> dict[Recipe, list[Filling]]:
    """Makes each model alone on an idle server, and queries it."""
    found = {}
    for recipe in asked:
        name = (await recipe.make(client, "models/alone")).name
        found[recipe] = await fill(client, name)
        await client.unload_model(name, timeout=MAKE_SECONDS)
    return found


def close(found: Sequence[Filling], truth: Sequence[Filling], tolerance: float) -> bool:
    """Returns whether every mask has the same words with the same log-probabilities, up to `tolerance` nats."""
    if [mask.keys() for mask in found] != [mask.keys() for mask in truth]:
        return False
    pairs = np.array([(mask[word], true[word]) for mask, true in zip(found, truth, strict=True) for word in true])
    return bool(np.allclose(pairs[:, 0], pairs[:, 1], rtol=0, atol=tolerance))


@dataclass(frozen=True, slots=True)
class Operator:
    """Makes one model after another under its own names. `truths` are by recipe."""

    number: int
    client: bertscope.AsyncClient
    truths: Mapping[Recipe, Sequence[Filling]]
    tally: Tally

    async def keep_making(self, draw: np.random.Generator, *, end: float, pause: float) -> None:
        """Makes, queries, sometimes replaces and unloads models until `end`, a loop time, with `pause` seconds between on
        average."""
        loop, made = asyncio.get_running_loop(), 0
        asked = list(self.truths)
        loads = [recipe for recipe in asked if recipe.replaces]
        while loop.time() < end:
            made += 1
            name = f"models/made-{self.number}-{made}"
            recipe = asked[draw.integers(len(asked))]
            if draw.random() < CANCELLED_SHARE:
                await self._cancel(recipe, name, draw.exponential(CANCEL_SECONDS))
            elif await self._make(recipe, name):
                if draw.random() < REPLACED_SHARE:
                    await self._make(loads[draw.integers(len(loads))], name)
                unloading = self.client.unload_model(name, timeout=MAKE_SECONDS)
                await counted(self.tally, "UnloadModel, made", unloading, {OK})
            await asyncio.sleep(draw.exponential(pause))

    async def _make(self, recipe: Recipe, name: str) -> bool:
        """Makes a model and checks its answers. Returns whether it exists."""
        model = await counted(self.tally, recipe.kind, recipe.make(self.client, name), ALWAYS)
        if model is None:
            return False
        for _ in range(3):
            found = await counted(self.tally, "FillMask, made", fill(self.client, name), ALWAYS)
            if found is not None and not close(found, self.truths[recipe], recipe.tolerance):
                self.tally.was_wrong(recipe.kind, "the model does not answer as when it was made alone")
        return True

    async def _cancel(self, recipe: Recipe, name: str, seconds: float) -> None:
        """Cancels the making of a model after `seconds`; then the model must be gone, or be there whole."""
        making = asyncio.ensure_future(recipe.make(self.client, name))
        asyncio.get_running_loop().call_later(seconds, making.cancel)
        try:
            await counted(self.tally, f"{recipe.kind}, cancelled", making, ALWAYS)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self.tally.ended(f"{recipe.kind}, cancelled", "CANCELLED", {"CANCELLED"})
        async with asyncio.timeout(MAKE_SECONDS):
            while name in (there := {model.name: model for model in await self.client.list_models()}):
                if there[name].state == "ready":
                    await counted(self.tally, "UnloadModel, made", self.client.unload_model(name), {OK, "NOT_FOUND"})
                await asyncio.sleep(0.05)
