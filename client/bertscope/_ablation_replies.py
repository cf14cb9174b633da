"""Reads the replies of AblationService. Pure, as `_replies`, and raises InvalidReply likewise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope import _replies
from bertscope._assembly import DTYPES
from bertscope.ablation import CurvePoint, HeadEffect, MetricEffect, SweepStart, SweepSummary, SweepTable
from bertscope.errors import InvalidReply
from bertscope.ranking import HeadRanking
from bertscope.v1 import ablation_pb2, common_pb2


class SweepAssembler:
    """The state of one SweepHeads stream: messages in, effects out, and the table at the end."""

    def __init__(self, request: ablation_pb2.SweepHeadsRequest) -> None:
        self._request = request
        self._mode = _replies.enum_name(common_pb2.HeadIntervention.Mode, request.mode, "MODE_")
        by_layer = request.scope == ablation_pb2.SweepHeadsRequest.SCOPE_EVERY_LAYER
        self._scope = "sets" if request.sets else "layers" if by_layer else "heads"
        self._greedy = request.HasField("greedy")
        self._removed = 0
        self.start: SweepStart | None = None
        self.effects: list[HeadEffect] = []
        self.points: list[CurvePoint] = []
        self.summary: SweepSummary | None = None

    def add(self, message: ablation_pb2.SweepHeadsResponse) -> HeadEffect | CurvePoint | None:
        """Takes in one message; gives the effect or point that it brings, if it does.

        Raises InvalidReply for a message that breaks the contract.
        """
        event = message.WhichOneof("event")
        if event is None:
            return None  # An event that a newer server knows and this version does not.
        if (event == "start") != (self.start is None) or self.summary is not None:
            raise InvalidReply(f"the server sent the {event} of a sweep where it is not due")
        if event == "start":
            self.start = _start(message.start)
        elif event == "summary":
            self.summary = _summary(message.summary)
        elif (event == "point") != self._greedy:
            raise InvalidReply(f"the server sent {'an effect' if self._greedy else 'a point'} that was not asked for")
        else:
            return self._effect(message.effect) if event == "effect" else self._point(message.point)
        return None

    def end(self) -> SweepTable:
        """The whole sweep. Raises InvalidReply if the stream ended before it was complete."""
        if self.start is None or self.summary is None:
            raise InvalidReply(f"the stream ended early: {self._count} of {self._total} effects and no summary")
        if self._count != self._total:
            raise InvalidReply(f"the server announced {self._total} effects and sent {self._count}")
        bootstrap = self._request.bootstrap
        return SweepTable(
            mode=self._mode,
            scope=self._scope,
            start=self.start,
            effects=tuple(self.effects),
            points=tuple(self.points),
            summary=self.summary,
            factor=self._request.scale if self._request.HasField("scale") else None,
            confidence=bootstrap.confidence if bootstrap.HasField("confidence") else SweepTable.confidence,
            resamples=bootstrap.resamples if bootstrap.HasField("resamples") else SweepTable.resamples,
            seed=bootstrap.seed,
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
        effects = {effect.metric: effect for effect in map(_metric_effect, messages)}
        expected = list(self.start.baseline) if self.start else []
        if list(effects) != expected:
            raise InvalidReply(f"the server sent the metrics {list(effects)} where the baseline has {expected}")
        return effects


def head_ranking(message: ablation_pb2.RankHeadsResponse) -> HeadRanking:
    """The importance of every head."""
    importance, gradient = _matrix(message.importance), _matrix(message.gradient)
    if importance.shape != gradient.shape:
        raise InvalidReply(f"the server sent importance of shape {importance.shape} and gradient of shape {gradient.shape}")
    return HeadRanking(
        importance=importance,
        gradient=gradient,
        items=message.items,
        skipped_items=message.skipped_items,
        loss=message.loss,
        provenance=_replies.provenance(message.provenance),
    )


def _start(message: ablation_pb2.SweepStart) -> SweepStart:
    baseline = {_metric(score.metric): score.score for score in message.baseline}
    if not baseline:
        raise InvalidReply("the server began a sweep without a baseline")
    return SweepStart(
        baseline=baseline,
        total=message.total,
        items=message.items,
        skipped_items=message.skipped_items,
        truncated_texts=message.truncated_texts,
        predicted_pieces=message.predicted_pieces,
    )


def _summary(message: ablation_pb2.SweepSummary) -> SweepSummary:
    return SweepSummary(
        helped=message.helped,
        hurt=message.hurt,
        layer_passes=message.layer_passes,
        full_layer_passes=message.full_layer_passes,
        seconds=message.seconds,
        provenance=_replies.provenance(message.provenance),
    )


def _head_set(message: ablation_pb2.HeadSet) -> Mapping[int, tuple[int, ...]]:
    heads = _replies.heads_by_layer(message.layers)
    if not heads or not all(heads.values()):
        raise InvalidReply("the server sent an effect that does not say of which heads it is")
    return heads


def _metric_effect(message: ablation_pb2.MetricEffect) -> MetricEffect:
    return MetricEffect(
        metric=_metric(message.metric),
        score=message.score,
        difference=message.difference,
        low=message.low if message.HasField("low") else None,
        high=message.high if message.HasField("high") else None,
        mcnemar_p=message.mcnemar_p if message.HasField("mcnemar_p") else None,
    )


def _metric(number: int) -> str:
    return _replies.enum_name(ablation_pb2.Metric, number, "METRIC_")


def _matrix(message: common_pb2.Tensor) -> npt.NDArray[np.float32]:
    dtype: np.dtype[Any] | None = DTYPES.get(message.dtype)
    shape = tuple(message.shape)
    if dtype is None or len(shape) != 2 or len(message.data) != shape[0] * shape[1] * dtype.itemsize:
        raise InvalidReply(f"the server sent {len(message.data)} bytes as a matrix of shape {shape}")
    return np.frombuffer(message.data, dtype).reshape(shape).astype(np.float32)
