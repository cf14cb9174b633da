"""Traces: which place of a model carries an answer, over pairs of texts."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertscope.errors import invalid_argument
from bertscope.questions.ablation.site_effects import WHAT, PairValues, SiteEffect, added_effects
from bertscope.values.columns import named
from bertscope.values.display import ShownAsTable, counted
from bertscope.values.documents import document_of, stored
from bertscope.values.intervals import Interval
from bertscope.values.merging import added, require_same, same_weights
from bertscope.values.results import Provenance

__all__ = ["Trace"]

SITES = {
    "state": "states",
    "heads": "outputs of heads",
    "attention": "outputs of attention",
    "neurons": "neurons",
    "feed_forward": "outputs of feed-forward blocks",
}

SAME = ("positions", "direction", "asked")
"""Attributes that parts which merge have in common."""
MEASURED = ("count", "difference", "difference_low", "difference_high", "recovery", "recovery_low", "recovery_high")


class Baseline(NamedTuple):
    """The target with nothing changed, means over pairs."""

    clean: float
    """On the clean texts, in the unit of the target's scale."""
    corrupted: float
    """On the corrupted texts."""


@dataclass(frozen=True, eq=False, repr=False)
class Trace(ShownAsTable):
    """The effects of changing one place of a model after another, over pairs of texts. Compared by identity."""

    _best = "difference"
    _table = named("site", "layer", "unit", "receiver", "position", "name", *MEASURED)
    _whole = ("unit", "position")

    positions: str
    """The positions that changed at a time: "each", "each_word", "together" or "groups"; "paths" for paths."""
    direction: str
    """"restore": the corrupted run was changed; "break": the clean one; "change": the clean one, without a corrupted one."""
    pairs: tuple[PairValues, ...]
    """The tokens of each pair, and its values without changes."""
    effects: tuple[SiteEffect, ...]
    """Effects in the order of the reply."""
    layer_passes: int
    """Runs of one layer on one text that were computed."""
    full_layer_passes: int
    """Runs that the same trace takes with every change run from the embeddings on."""
    seconds: float
    """Time that the server took, seconds."""
    provenance: Provenance
    """Provenance of the numbers."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The request without its pairs, in JSON types, long values as digests: traces that merge have the same."""
    digests: tuple[str, ...] = ()
    """Digest of each pair as it was sent."""
    interrupted: str | None = None
    """Why the trace was cut short: it has the pairs before that; None for a whole one. `start_from` measures the rest."""

    @classmethod
    def merge(cls, parts: Iterable[Trace]) -> Trace:
        """Returns the trace over the pairs of all parts: that of a call with all of them, exactly.

        Raises InvalidArgument unless the parts were asked the same about other pairs each, and FailedPrecondition for parts of
        models with other weights.
        """
        found = [*parts]
        source = same_weights(part.provenance for part in found)
        require_same(found, SAME)
        sums = added(found, ("pairs", "digests", "layer_passes", "full_layer_passes", "seconds"))
        return dataclasses.replace(
            found[0],
            effects=added_effects(part.effects for part in found),
            interrupted=next((part.interrupted for part in found if part.interrupted is not None), None),
            provenance=source,
            **sums,
        )

    def _heading(self) -> str:
        what, target, values = heading(self)
        cut = "" if self.complete else ", cut short"
        return f"<Trace: {what}; {target}; {values}; {counted('effect', len(self.effects))}{cut}>"

    def __add__(self, other: Trace) -> Trace:
        return Trace.merge([self, other])

    @property
    def complete(self) -> bool:
        """True for a whole trace."""
        return self.interrupted is None

    @property
    def baseline(self) -> Baseline:
        """The target with nothing changed, means over pairs."""
        clean, corrupted = zip(*((pair.clean, pair.corrupted) for pair in self.pairs), strict=True)
        return Baseline(math.fsum(clean) / len(clean), math.fsum(corrupted) / len(corrupted))

    @property
    def recovery(self) -> npt.NDArray[np.float64]:
        """Shares of the difference between both runs, `SiteEffect.recovery`: [layers, positions]; see `matrix`."""
        return self.matrix("recovery")

    @property
    def difference(self) -> npt.NDArray[np.float64]:
        """Differences in the unit of the target's scale, `SiteEffect.difference`: [layers, positions]; see `matrix`."""
        return self.matrix("difference")

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that were changed; for paths those of senders."""
        return tuple(dict.fromkeys(effect.site for effect in self.effects))

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that were changed, ascending: the rows of `recovery`."""
        return tuple(sorted({effect.layer for effect in self.effects}))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the positions, the columns of `recovery`: of one pair its tokens or words, else their numbers or groups."""
        return tuple(map(self._name, self._places))

    def name_of(self, effect: SiteEffect) -> str:
        """Returns the name of the positions of an effect, as in `names`."""
        return self._name((effect.position, effect.group))

    @property
    def target(self) -> str:
        """The number that was measured, in words; of pairs with several, the first."""
        found = list(dict.fromkeys(pair.target for pair in self.pairs))
        return found[0] + (f", and {len(found) - 1} others" if len(found) > 1 else "")

    @property
    def _places(self) -> list[tuple[int | None, str]]:
        found = dict.fromkeys((effect.position, effect.group) for effect in self.effects)
        return sorted(found, key=lambda place: -1 if place[0] is None else place[0])

    def _name(self, place: tuple[int | None, str]) -> str:
        position, group = place
        if position is None:
            return group or "all"
        if len(self.pairs) > 1:
            return str(position)
        pair = self.pairs[0]
        named = pair.words if self.positions == "each_word" else [token.text for token in pair.tokens]
        return named[position] if position < len(named) else str(position)

    def matrix(self, what: str = "recovery", site: str | None = None) -> npt.NDArray[np.float64]:
        """Returns "recovery" or "difference" as [layers, positions], or as [layers, units, positions] if each unit was changed
        alone; NaN where nothing was measured. Rows are those of `layers`, columns those of `names`.

        `site` names one of several. Raises InvalidArgument for paths, which have no place in it.
        """
        if what not in WHAT:
            raise invalid_argument("what", f"must be one of {', '.join(WHAT)}, not {what!r}")
        if any(effect.receiver is not None for effect in self.effects):
            raise invalid_argument("what", "is a number of places, and these are paths; use effects, or to_pandas()")
        if site not in (None, *self.sites) or (site is None and len(self.sites) > 1):
            raise invalid_argument("site", f"must be one of {', '.join(self.sites)}, the sites that were changed")
        chosen = [effect for effect in self.effects if site in (None, effect.site)]
        rows = {layer: place for place, layer in enumerate(self.layers)}
        columns = {key: place for place, key in enumerate(self._places)}
        units = 1 + max((effect.unit or 0 for effect in chosen), default=0)
        found = np.full((len(rows), units, len(columns)), math.nan)
        for effect in chosen:
            found[rows[effect.layer], effect.unit or 0, columns[effect.position, effect.group]] = getattr(effect, what)
        return found if any(effect.unit is not None for effect in chosen) else found[:, 0]

    def interval(self, what: str = "recovery", confidence: float = 0.95) -> tuple[Interval | None, ...]:
        """Returns the interval of each of `effects`: `SiteEffect.interval`, which says what it covers."""
        return tuple(effect.interval(what, confidence) for effect in self.effects)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of `to_pandas`; needs no pandas."""
        for effect in self.effects:
            receiver = None if effect.receiver is None else str(effect.receiver)
            name = None if effect.receiver else self.name_of(effect)
            ends = {what: effect.interval(what) or (None, None) for what in WHAT}
            measured = effect.count, effect.difference, *ends["difference"], effect.recovery, *ends["recovery"]
            numbers = (None if isinstance(each, float) and math.isnan(each) else each for each in measured)
            yield effect.site, effect.layer, effect.unit, receiver, effect.position, name, *numbers

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the trace as JSON; `load` reads it, and `start_from` resumes it if it was cut short."""
        Path(path).write_text(json.dumps(document(self), indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | PathLike[str]) -> Trace:
        """Reads a file of `save`, or of `bertscope trace` with --json or --output FILE.json.

        Raises InvalidArgument for a file with other contents, OSError for one that can't be read.
        """
        try:
            return trace_of(json.loads(Path(path).read_bytes()))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            problem = f"{path} is not a trace as JSON; give what Trace.save, --json or --output FILE.json wrote"
            raise invalid_argument("start_from", problem) from None


def heading(found: Trace) -> list[str]:
    """Returns what was changed, and the values without changes, as lines."""
    what = "paths" if found.positions == "paths" else ", ".join(SITES.get(site, site) for site in found.sites)
    run = {"restore": "put into the corrupted run", "break": "of the corrupted run, put into the clean one"}
    count = len(found.pairs)
    on = "" if count == 1 else f", {count} pairs"
    clean, corrupted = found.baseline
    values = f"clean {clean:+.3f}" + ("" if found.direction == "change" else f", corrupted {corrupted:+.3f}")
    return [f"{what} {run.get(found.direction, 'changed')}{on}, {found.provenance.model}", found.target, values]


def document(found: Trace) -> dict[str, Any]:
    """Returns the trace in JSON types, with the means beside the sums."""
    effects = [
        document_of(effect)
        | {name: None if math.isnan(getattr(effect, name)) else getattr(effect, name) for name in WHAT}
        | {f"{name}_interval": effect.interval(name) for name in WHAT}
        for effect in found.effects
    ]
    return {**document_of(found), "target": found.target, "effects": effects}


def trace_of(values: Mapping[str, Any]) -> Trace:
    """Returns the trace of a document. Raises KeyError, TypeError, ValueError or AttributeError for another document."""
    return stored(Trace, values)
