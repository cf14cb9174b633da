"""Assembles the messages of a SweepHeads stream into a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from time import monotonic

from bertscope.errors import InvalidReply
from bertscope.questions.ablation import resumption
from bertscope.questions.ablation.effects import CurvePoint, HeadEffect, MetricEffect
from bertscope.questions.ablation.sweeps import Bootstrap, SweepStart, SweepSummary, SweepTable
from bertscope.v1 import ablation_pb2, common_pb2
from bertscope.values import messages as wire
from bertscope.values.results import Provenance

USUAL_CONFIDENCE, USUAL_RESAMPLES = 0.95, 1000
"""The values of servers that are too old to send them."""

UNKNOWN = Provenance("", "", "", "", "", {}, "")
"""The provenance of a sweep that was cut short, from a server that sends it only at the end."""


class SweepAssembler:
    """The state of one SweepHeads stream: messages in, effects out, and the table at the end."""

    def __init__(self, request: ablation_pb2.SweepHeadsRequest, earlier: SweepTable | None = None) -> None:
        """`earlier` holds the effects that the request leaves out, because they are measured already."""
        self._request = request
        self._mode = wire.enum_name(common_pb2.HeadIntervention.Mode, request.mode)
        self._scope = resumption.scope_of(request)
        self._greedy = request.HasField("greedy")
        self._earlier = earlier
        self._began = monotonic()
        self.start: SweepStart | None = None
        self.effects: list[HeadEffect] = list(earlier.effects) if earlier else []
        # A curve without removed sets begins anew, with its baseline.
        self.points: list[CurvePoint] = list(earlier.points) if earlier and request.done else []
        self._before = self._count
        self._removed = self.points[-1].removed if self.points else 0
        self.summary: SweepSummary | None = None

    def add(self, message: ablation_pb2.SweepHeadsResponse) -> HeadEffect | CurvePoint | None:
        """Processes one message and returns its effect or point, if it has one.

        Raises InvalidReply for a message that breaks the contract.
        """
        event = message.WhichOneof("event")
        if event is None:
            return None  # An event that a newer server knows and this version does not.
        if (event == "start") != (self.start is None) or self.summary is not None:
            raise InvalidReply(f"the server sent the {event} of a sweep where it is not due")
        if event == "start":
            self.start = self._started(_start(message.start))
        elif event == "summary":
            self.summary = wire.read(SweepSummary, message.summary)
        elif (event == "point") != self._greedy:
            raise InvalidReply(f"the server sent {'an effect' if self._greedy else 'a point'} that was not asked for")
        else:
            return self._effect(message.effect) if event == "effect" else self._point(message.point)
        return None

    def _started(self, start: SweepStart) -> SweepStart:
        """Returns the start of the whole sweep, that of the earlier one if there is one."""
        if self._earlier is None:
            return start
        resumption.check_start(self._earlier, start)
        if self._before + start.total != self._earlier.start.total:
            wanted = self._earlier.start.total - self._before
            raise InvalidReply(f"the server announced {start.total} effects where {wanted} are left")
        return self._earlier.start

    def partial(self, why: str) -> SweepTable | None:
        """Returns the table of the effects so far; None if there are none."""
        if self.start is None:
            return self._earlier
        firsts = [next(iter(effect.metrics.values())) for effect in self.effects]
        helped, hurt = sum(effect.helped for effect in firsts), sum(effect.hurt for effect in firsts)
        seconds = monotonic() - self._began + (self._earlier.summary.seconds if self._earlier else 0.0)
        return self._table(self.start, SweepSummary(helped, hurt, 0, 0, seconds, self.start.provenance or UNKNOWN), why)

    def end(self) -> SweepTable:
        """Returns the whole sweep. Raises InvalidReply if the stream ended before it was complete."""
        if self.start is None or self.summary is None:
            raise InvalidReply(f"the stream ended early: {self._count} of {self._total} effects and no summary")
        if self._count != self._total:
            raise InvalidReply(f"the server announced {self._total} effects and sent {self._count}")
        summary = self.summary
        if self._earlier is not None:
            before = self._earlier.summary
            summary = replace(
                summary,
                helped=summary.helped + before.helped,
                hurt=summary.hurt + before.hurt,
                seconds=summary.seconds + before.seconds,
            )
        return self._table(self.start, summary, None)

    def _table(self, start: SweepStart, summary: SweepSummary, interrupted: str | None) -> SweepTable:
        bootstrap = self._bootstrap(start)
        return SweepTable(
            mode=self._mode,
            scope=self._scope,
            start=start,
            effects=tuple(self.effects),
            points=tuple(self.points),
            summary=summary,
            factor=self._request.scale if self._request.HasField("scale") else None,
            confidence=bootstrap.confidence,
            resamples=bootstrap.resamples,
            seed=bootstrap.seed,
            asked=self._earlier.asked if self._earlier else resumption.asked(self._request),
            interrupted=interrupted,
            resumed=self._before,
        )

    def _bootstrap(self, start: SweepStart) -> Bootstrap:
        """Returns the server's bootstrap; for a server that does not send it, the contract's default."""
        if start.bootstrap is not None:
            return start.bootstrap
        asked = self._request.bootstrap
        return Bootstrap(
            resamples=asked.resamples if asked.HasField("resamples") else USUAL_RESAMPLES,
            seed=asked.seed,
            confidence=asked.confidence if asked.HasField("confidence") else USUAL_CONFIDENCE,
        )

    @property
    def _count(self) -> int:
        return len(self.effects) + len(self.points)

    @property
    def _total(self) -> int:
        return self.start.total if self.start else 0

    def _effect(self, message: ablation_pb2.HeadEffect) -> HeadEffect:
        effect = HeadEffect(heads=_head_set(message.heads), metrics=self._metrics(message.metrics))
        self.effects.append(effect)
        return effect

    def _point(self, message: ablation_pb2.CurvePoint) -> CurvePoint:
        added = tuple(map(_head_set, message.added))
        self._removed += sum(len(heads) for layers in added for heads in layers.values())
        point = CurvePoint(
            added=added,
            removed=self._removed,
            share_removed=message.share_removed,
            metrics=self._metrics(message.metrics),
        )
        self.points.append(point)
        return point

    def _metrics(self, messages: Iterable[ablation_pb2.MetricEffect]) -> dict[str, MetricEffect]:
        effects = {effect.metric: effect for effect in (wire.read(MetricEffect, message) for message in messages)}
        expected = list(self.start.baseline) if self.start else []
        if list(effects) != expected:
            raise InvalidReply(f"the server sent the metrics {list(effects)} where the baseline has {expected}")
        return effects


def _start(message: ablation_pb2.SweepStart) -> SweepStart:
    baseline = {wire.enum_name(ablation_pb2.Metric, score.metric): score.score for score in message.baseline}
    if not baseline:
        raise InvalidReply("the server began a sweep without a baseline")
    return wire.read(SweepStart, message, baseline=baseline)


def _head_set(message: ablation_pb2.HeadSet) -> Mapping[int, tuple[int, ...]]:
    heads = wire.heads_by_layer(message.layers)
    if not heads or not all(heads.values()):
        raise InvalidReply("the server sent an effect that does not say of which heads it is")
    return heads
