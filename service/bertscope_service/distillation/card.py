"""Writes the model card of a distilled model: Hugging Face's README.md, with how it was made and how well it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bertscope_service.checkpoints.steps import Applied
from bertscope_service.distillation.settings import DistillationSettings

NAME = "README.md"


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A row of the card's table: a model, and its scores on the test texts; None where no gold answer is known."""

    model: str
    accuracy: float | None
    loss: float | None
    agreement: float
    divergence: float


def model_card(
    teacher: str,
    steps: Sequence[Applied],
    settings: DistillationSettings,
    rows: Sequence[ScoreRow],
    recovered: Mapping[str, str],
    texts: Mapping[str, int],
) -> str:
    """Returns the card. recovered: by metric, the share that came back, with its interval; texts: of each part."""
    weights = settings.weights
    parts = [
        f"the teacher's probabilities (weight {weights.soft:g}, temperature {weights.temperature:g})" * bool(weights.soft),
        f"gold answers (weight {weights.hard:g})" * bool(weights.hard),
        f"hidden states ({weights.state_loss.value}, weight {weights.states:g})" * bool(weights.states),
        f"attention maps (weight {weights.attention:g})" * bool(weights.attention),
    ]
    imitates, layers = ", ".join(filter(None, parts)), ", ".join(map(str, weights.teacher_layers))
    table = "\n".join(
        f"| {row.model} | {_number(row.accuracy)} | {_number(row.loss)} | {row.agreement:.4f} | {row.divergence:.4f} |"
        for row in rows
    )
    return f"""---
library_name: transformers
tags: [bertscope, knowledge-distillation]
---
# A distilled model

Distilled from `{teacher}` by bertscope.

{_list(f"{step.step}: {step.description}" for step in steps)}

## Training

It imitates {imitates}{f"; its layers imitate the teacher's layers {layers}, counted from 0" * weights.deep}.
{settings.epochs} epochs over {texts["train"]} texts, in updates of {settings.batch_tokens} tokens, by AdamW at
{settings.learning_rate:g} (warm-up {settings.warm_up:g}, weight decay {settings.weight_decay:g}, seed {settings.seed}).
The weights were chosen on {texts["dev"]} other texts.

## Scores on {texts["test"]} texts that nothing was chosen by

| model | accuracy | loss, nats | agrees with the teacher | KL(teacher, model), nats |
|---|---:|---:|---:|---:|
{table}

{_list(f"{share} of the lost {metric} came back." for metric, share in recovered.items())}
"""


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
