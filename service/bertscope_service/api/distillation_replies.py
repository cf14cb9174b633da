"""Renders DistillModel's replies, and what the manifest and the model card say."""

from __future__ import annotations

from bertscope.v1 import distillation_pb2 as pb2

from bertscope_service.api.distillation_requests import PlannedDistillation
from bertscope_service.api.intervals import METRICS
from bertscope_service.api.provenance import render_provenance
from bertscope_service.checkpoints.steps import Applied
from bertscope_service.distillation.card import ScoreRow
from bertscope_service.distillation.recovery import Recovery
from bertscope_service.distillation.rows import DEV, TEST, TRAIN, Part
from bertscope_service.distillation.run import DistillationProgress, Distilled
from bertscope_service.distillation.training import Scores
from bertscope_service.models.loaded import LoadedModel


def describe(planned: PlannedDistillation, distilled: Distilled, teacher: str) -> Applied:
    """Returns the step of the manifest."""
    scores = {"untrained": distilled.untrained, "student": distilled.student, "teacher": distilled.teacher}
    numbers = {f"{name}_{key}": value for name, own in scores.items() for key, value in _numbers(own).items()}
    numbers |= {"updates": distilled.position.updates, "best_update": distilled.position.best_update}
    texts = len(planned.texts.parts[TRAIN].examples)
    shares = ", ".join(f"{share_in_words(one)} of the lost {one.metric.value}" for one in distilled.recoveries)
    words = f"trained to answer as {teacher} does, {planned.settings.epochs} epochs over {texts} texts"
    return Applied("distill", words + (f"; back on held-out texts: {shares}" if shares else ""), numbers)


def share_in_words(one: Recovery) -> str:
    """Returns a share in words, with its interval."""
    ends = "" if one.low is None or one.high is None else f" (95 % interval {100 * one.low:.1f} to {100 * one.high:.1f} %)"
    return f"{100 * one.share:.1f} %{ends}"


def _numbers(scores: Scores) -> dict[str, float]:
    predictions, answers = int(scores.predictions.sum()), int(scores.answers.sum())
    known = {"accuracy": scores.right.sum() / answers, "loss": scores.loss.sum() / answers} if answers else {}
    every = {"agreement": scores.agreeing.sum() / predictions, "divergence": scores.divergence.sum() / predictions}
    return {name: float(value) for name, value in (known | every).items()}


def card_row(name: str, scores: Scores) -> ScoreRow:
    found = _numbers(scores)
    return ScoreRow(name, found.get("accuracy"), found.get("loss"), found["agreement"], found["divergence"])


def render_progress(progress: DistillationProgress) -> pb2.DistillationProgress:
    return pb2.DistillationProgress(
        stage=pb2.DistillationProgress.Stage.Value(f"STAGE_{progress.stage.upper()}"),
        done=progress.done,
        total=progress.total,
        loss=progress.loss,
        best_dev_loss=progress.best,
        resumed=progress.resumed,
    )


def render_report(planned: PlannedDistillation, distilled: Distilled, model: LoadedModel) -> pb2.DistillationReport:
    position, parts = distilled.position, planned.texts.parts
    report = pb2.DistillationReport(
        train=_render_part(parts[TRAIN]),
        dev=_render_part(parts[DEV]),
        test=_render_part(parts[TEST]),
        teacher=_render_scores(distilled.teacher),
        untrained=_render_scores(distilled.untrained),
        student=_render_scores(distilled.student),
        teacher_layers=planned.settings.weights.teacher_layers,
        updates=position.updates,
        best_update=position.best_update,
        untrained_dev_loss=position.losses[0],
        best_dev_loss=min(position.losses),
        seconds=position.seconds,
        resumed=distilled.resumed,
        provenance=render_provenance(model),
    )
    for one in distilled.recoveries:
        report.recoveries.add(metric=METRICS[one.metric], share=one.share, low=one.low, high=one.high)
    return report


def _render_part(part: Part) -> pb2.DistillationPart:
    tokens = sum(len(one.sequence) for one in part.examples)
    return pb2.DistillationPart(texts=len(part.examples), tokens=tokens, truncated_tokens=part.truncated)


def _render_scores(scores: Scores) -> pb2.DistillationScores:
    predictions, answers = int(scores.predictions.sum()), int(scores.answers.sum())
    return pb2.DistillationScores(predictions=predictions, answers=answers, **_numbers(scores))
