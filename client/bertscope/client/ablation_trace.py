# Generated from bertscope/questions/ablation/trace_calls.py. Do not edit: change that file, and run `make client`.
"""Calls that trace which places of a model carry an answer: `sweep_sites`, `trace`."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from os import PathLike
from time import monotonic
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import Resumable, gathered
from bertscope.errors import BertscopeError
from bertscope.questions.ablation.site_effects import SiteEffect, SiteSweepStart
from bertscope.questions.ablation.trace_assembly import TraceAssembler, begin
from bertscope.questions.ablation.traced_pairs import AskedPair, Corruption, Groups, asked_pairs, sweep_sites_request
from bertscope.questions.ablation.traces import Trace
from bertscope.rpc.pacing import Pace
from bertscope.rpc.splitting import Parts
from bertscope.rpc.threads import sleep
from bertscope.v1 import ablation_sites_pb2
from bertscope.values.changes import SiteChange
from bertscope.values.choices import PatchDirection, PositionScope, Site
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers, with_items
from bertscope.values.models import Model
from bertscope.values.score_targets import ScoreTarget
from bertscope.values.validation import TextOrPair

__all__ = ["SiteSweep"]

Response = ablation_sites_pb2.SweepSitesResponse


class SiteSweep(Resumable[SiteEffect, Trace, SiteSweepStart]):
    """A running trace: gives a `SiteEffect` at a time, or all of them as a `table`, a `Trace`.

    Many pairs go in parts: an effect is over the pairs of its part, and the trace adds them. The call begins at the first read.
    Leaving it as a context manager, or `close`, cancels it. A reader that stops reading pauses it.

    >>> with client.sweep_sites(clean, corrupted, bertscope.Answer("are", "is")) as running:  # doctest: +SKIP
    ...     for effect in running:
    ...         print(effect.layer, effect.position, effect.recovery)
    ...     trace = running.table()
    """

    what = "trace"

    def __init__(self, assembler: TraceAssembler, messages: Generator[Response, None, None], total: int) -> None:
        """Made by `Client.sweep_sites`."""
        self.total_pairs, self._measured = total, assembler
        super().__init__(assembler, messages)

    @property
    def done_pairs(self) -> int:
        """The pairs, of `total_pairs`, that are measured, also by an earlier trace."""
        return self._measured.done

    def table(self) -> Trace:
        """Returns the whole trace; waits for the rest. An error gets the trace over the pairs before it, as `partial`."""
        try:
            return super().table()
        except BertscopeError as error:
            error.partial = self._assembler.partial(str(error))
            raise


class TraceCalls(Connection):
    """The methods of `Client` that trace answers through a model."""

    def sweep_sites(
        self,
        clean: TextOrPair | Iterable[TextOrPair],
        corrupted: Corruption | Iterable[Corruption] | None,
        target: ScoreTarget | Iterable[ScoreTarget],
        *,
        groups: Groups | Iterable[Groups] | None = None,
        model: str | Model | None = None,
        sites: Site | Iterable[Site] | None = None,
        layers: Numbers | None = None,
        units: Numbers | None = None,
        each_unit: bool = False,
        positions: PositionScope | None = None,
        direction: PatchDirection | None = None,
        change: SiteChange | float | str | None = None,
        paths: bool = False,
        sender_layers: Numbers | None = None,
        receiver_layers: Numbers | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        memory_bytes: SupportsIndex | None = None,
        start_from: Trace | str | PathLike[str] | None = None,
        timeout: float | None = None,
    ) -> SiteSweep:
        """Changes one place of the model after another, and measures what that does to a number of each text: activation
        patching, causal tracing (Vig et al. 2020; Meng et al. 2022, section 2).

        `clean` is a text or a pair, or many; `corrupted` another one that the model reads as as many tokens, `NoisyWords` or
        `MaskedWords`, one for each; `target` the number, one for all or one for each: `Answer("are", "is")` at a mask,
        `TextLabel` and others. `direction` "restore" (unless set) puts vectors of the clean run into the corrupted one: which
        place is enough for the answer? "break" puts those of the corrupted run into the clean one: which does it need?

        `sites` are "state" (unless set), "heads", "attention", "neurons" and "feed_forward"; `layers` all unless set, for
        "state" all that a layer reads. All `units`, heads or neurons, of a layer change together, or `each_unit` alone.
        `positions` change one at a time: "each" token (unless set), "each_word", all "together", or "groups" of words by name,
        which mean the same in all pairs: `groups` has for each text {name: spans}.

        `change` takes the place of the other run's vectors: a factor (0 silences), "mean" (over `reference_texts`), or the
        change of a site change (`bertscope.add(0, vector).change`); the clean run is changed, and `corrupted` is None.

        `paths` changes paths in place of sites: from each head and feed-forward block of `sender_layers` to each query, key,
        value, feed-forward block of `receiver_layers`, and the logits, at all positions (path patching, Goldowsky-Dill et al.
        2023).

        Many pairs go in calls of a few seconds, within `timeout` each; sums over pairs add up exactly. `memory_bytes` bounds
        the states that runs share on the server. `start_from` is a trace that was cut short, what `SiteSweep.partial` gave
        or `Trace.save` wrote: only the pairs that it lacks are measured. Raises InvalidArgument unless it was asked the same.
        """
        request = sweep_sites_request(
            model=model,
            sites=sites,
            layers=layers,
            units=units,
            each_unit=each_unit,
            positions="groups" if positions is None and groups is not None else positions,
            direction=direction,
            change=change,
            paths=paths,
            sender_layers=sender_layers,
            receiver_layers=receiver_layers,
            interventions=interventions,
            reference_texts=reference_texts,
            memory_bytes=memory_bytes,
        )
        pairs = asked_pairs(clean, corrupted, target, groups)
        earlier = begin(request, [pair.message for pair in pairs], start_from)
        assembler = TraceAssembler(request, pairs, earlier)
        return SiteSweep(assembler, self._sweep_parts(request, pairs[assembler.done :], assembler.done, timeout), len(pairs))

    trace = gathered(sweep_sites, "trace", Trace)

    def _sweep_parts(
        self, request: ablation_sites_pb2.SweepSitesRequest, pairs: Sequence[AskedPair], first: int, timeout: float | None
    ) -> Generator[Response, None, None]:
        """Yields the messages of one call after another; the first of these pairs has the number `first`."""
        if not pairs:
            return  # An earlier trace has all.
        pace: Pace[AskedPair] = Pace(lambda pair: pair.work * max(1, len(request.scopes)), timeout, request.reference_texts)
        parts = Parts(iter(pairs), len(pairs), self._limit, pace=pace, numbers=range(first, first + len(pairs)))
        while (part := parts.take()) is not None:
            began = monotonic()
            asked = with_items(request, "pairs", [pair.message for pair in part.items])
            try:
                with closing(self._stream(asked, Response, timeout)) as messages:
                    for message in messages:
                        yield message
            except BertscopeError as error:
                again, seconds = parts.refused(part, error, self._retries.attempts)
                parts.put_back(again)
                sleep(seconds)
            else:
                parts.answered(monotonic() - began, parts.work(part))
