# Generated from bertscope/questions/ablation/calls.py. Do not edit: change that file, and run `make client`.
"""Calls for ablations: `sweep_heads`, `rank_heads`, `prune_heads`."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import Resumable
from bertscope.questions.ablation import resumption
from bertscope.questions.ablation.assembly import SweepAssembler
from bertscope.questions.ablation.effects import CurvePoint, HeadEffect, HeadRanking, read_head_ranking
from bertscope.questions.ablation.objectives import Greedy, Objective
from bertscope.questions.ablation.requests import greedy_message, head_sets, layer_heads, objective_message, scale_of, scope_of
from bertscope.questions.ablation.sweeps import SweepStart, SweepTable
from bertscope.v1 import ablation_pb2
from bertscope.values.choices import Mode, Scope
from bertscope.values.interventions import Interventions
from bertscope.values.models import Model, read_model
from bertscope.values.requests import request_of
from bertscope.values.validation import HeadsByLayer

__all__ = ["HeadSweep"]

Effect = HeadEffect | CurvePoint


class HeadSweep(Resumable[Effect, SweepTable, SweepStart]):
    """A running sweep: gives a `HeadEffect` (a `CurvePoint`, if greedy) at a time, or all of them as a `table`.

    The call begins at the first read. Leaving the sweep as a context manager, or `close`, cancels it. A reader that stops
    reading pauses it.

    >>> with client.sweep_heads(objective) as sweep:  # doctest: +SKIP
    ...     for effect in sweep:
    ...         print(effect.layer, effect.head, effect.difference)
    ...     table = sweep.table()
    """

    what = "sweep"


class AblationCalls(Connection):
    """The methods of `Client` that sweep, rank and prune heads."""

    def sweep_heads(
        self,
        objective: Objective,
        *,
        model: str | Model | None = None,
        mode: Mode = "zero",
        factor: float | None = None,
        scope: Scope | None = None,
        sets: HeadsByLayer | Iterable[HeadsByLayer] | None = None,
        reference_texts: str | Iterable[str] = (),
        interventions: Interventions = (),
        resamples: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        confidence: float | None = None,
        memory_bytes: SupportsIndex | None = None,
        greedy: Greedy | None = None,
        start_from: SweepTable | str | PathLike[str] | None = None,
        timeout: float | None = None,
    ) -> HeadSweep:
        """Changes every head, one after another, and measures what that does to an objective.

        `mode` is what a changed head contributes: "zero", "uniform", "mean" (over `reference_texts`) or "scale" (times
        `factor`). `scope` is "heads" (unless set) or "layers", all heads of one at once; `sets` measures given sets of
        heads instead, each a mapping {layer: head, heads or None for all}. `interventions` hold in all runs, the
        baseline too. With `greedy`, the sets are removed one after another, and the curve is drawn.

        Intervals are a paired bootstrap over the items: `resamples` (100 to 100,000; 1000 unless set), `seed`,
        `confidence` (0.5 to 0.999; 0.95 unless set). `memory_bytes` bounds the states that runs share on the server.

        `start_from` is a sweep that was cut short, what `HeadSweep.partial` gave or `SweepTable.save` wrote: only what it
        lacks is measured, and the table has both. Raises InvalidArgument unless it was asked the same, FailedPrecondition
        if the server's model has other weights or runs in another way.
        """
        request = request_of(
            ablation_pb2.SweepHeadsRequest,
            model=model,
            objective=objective_message(objective),
            scope=scope_of(scope, sets),
            sets=None if sets is None else head_sets(sets),
            mode=mode,
            scale=scale_of(mode, factor),
            reference_texts=reference_texts,
            interventions=interventions,
            bootstrap=request_of(ablation_pb2.Bootstrap, resamples=resamples, seed=seed, confidence=confidence),
            memory_bytes=memory_bytes,
            greedy=None if greedy is None else greedy_message(greedy),
        )
        request, earlier = resumption.begin(request, start_from)
        messages = self._stream(request, ablation_pb2.SweepHeadsResponse, timeout)
        return HeadSweep(SweepAssembler(request, earlier), messages)

    def rank_heads(
        self,
        objective: Objective,
        *,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        timeout: float | None = None,
    ) -> HeadRanking:
        """Ranks all heads by gradient importance, one forward and one backward pass over the items.

        `objective` is one that has a loss: `MaskedLmLoss`, `ClozePrompts`, `LabelledTexts`, `LabelledWords`, `RatedTexts` or
        `LabelledQuestions`. By others (`SimilarTexts`, `MinimalPairs`), and without gradients, `SweepTable.order` ranks.
        """
        request = request_of(
            ablation_pb2.RankHeadsRequest,
            model=model,
            objective=objective_message(objective),
            interventions=interventions,
            reference_texts=reference_texts,
        )
        response = self._call_long(request, ablation_pb2.RankHeadsResponse, timeout)
        return read_head_ranking(response)

    def prune_heads(
        self,
        model_id: str,
        heads: HeadsByLayer,
        *,
        model: str | Model | None = None,
        folder: str | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Removes heads from the weights of `model`, which stays loaded, and loads what is left as a new model.

        `heads` is a mapping {layer: head, heads or None for all}, as `HeadRanking.least` and `HeadEffect.heads` give it.
        The heads that stay keep their numbers. `folder`, on the server, absolute and empty or new, keeps the model.
        Raises AlreadyExists for an id in use, and Unimplemented where heads can't be removed (ALBERT).
        """
        request = request_of(
            ablation_pb2.PruneHeadsRequest,
            model=model,
            model_id=model_id,
            heads=layer_heads("heads", heads),
            folder=folder,
        )
        response = self._call_long(request, ablation_pb2.PruneHeadsResponse, timeout)
        return read_model(response.model)
