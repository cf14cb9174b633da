"""Trains a student: gradients of some rows at a time, and AdamW's updates, on the device's thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.distillation.losses import PARTS, Counts, Outputs, losses
from bertscope_service.distillation.rows import Drawn
from bertscope_service.distillation.settings import DistillationSettings, Predicted
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import State, to_device
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.fake_int8 import FakeInt8Embedding
from bertscope_service.encoders.torch.quantization import stored_weights

LONGEST_GRADIENT = 1.0
"""Gradients of an update are scaled down to this norm, as BERT was trained."""
BETAS, EPSILON = (0.9, 0.98), 1e-6
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""The tensors of AdamW for a parameter."""
COPIES = 5
"""Numbers in memory for each parameter: weight, gradient, two moments, and the best weight so far."""


class Training:
    """A student while it trains. Methods run on the device's thread, outside inference mode.

    Only the student's parameters have gradients; its teacher is the hosted model itself.
    """

    def __init__(self, student: TorchEncoder, teacher: TorchEncoder, settings: DistillationSettings) -> None:
        self.student, self.teacher, self.settings = student, teacher, settings
        model = student.architecture.model
        frozen = set() if settings.embeddings else {id(weight) for weight in embeddings_of(model)}
        self.parameters: dict[str, torch.nn.Parameter] = {}
        """The trained ones, by name."""
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(id(parameter) not in frozen)
            if id(parameter) not in frozen:
                self.parameters[name] = parameter
        self.best = {name: values.detach().clone() for name, values in self.parameters.items()}
        self.losses: dict[str, float] = {}
        """The losses of the last update, by part."""
        self._sums: dict[str, torch.Tensor] = {}
        self._sparse = {
            name: values != 0
            for name, values in self.best.items()
            if settings.sparse and values.ndim == 2 and (values == 0).any()
        }
        self._groups = list(self._optimizers())

    @property
    def groups(self) -> range:
        """Numbers of the groups of parameters that are updated in a step each."""
        return range(len(self._groups))

    def _optimizers(self) -> Iterator[torch.optim.AdamW]:
        """Yields an optimizer for each group of parameters; a group has no more than a device updates in a step."""
        limit, group, size = size_limits(self.student.device).updated_values, list[torch.nn.Parameter](), 0
        for parameter in self.parameters.values():
            if group and size + parameter.numel() > limit:
                yield self._optimizer(group)
                group, size = [], 0
            group.append(parameter)
            size += parameter.numel()
        yield self._optimizer(group)

    def _optimizer(self, group: Sequence[torch.nn.Parameter]) -> torch.optim.AdamW:
        # Weights decay, biases and normalisations don't.
        matrices, others = [one for one in group if one.ndim > 1], [one for one in group if one.ndim < 2]
        parts = [{"params": matrices, "weight_decay": self.settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
        # The fused update reads and writes each number once.
        fused = self.student.device.type == "cpu" or None
        rate = self.settings.learning_rate
        return torch.optim.AdamW([part for part in parts if part["params"]], lr=rate, betas=BETAS, eps=EPSILON, fused=fused)

    def accumulate(self, rows: Sequence[Drawn], counts: Counts) -> None:
        """Adds the gradient of some rows of an update."""
        weights = self.settings.weights
        with torch.no_grad():
            teacher = run(self.teacher, rows, weights.teacher_layers if weights.deep else (), maps=bool(weights.attention))
        gold = to_device(torch.from_numpy(np.concatenate([row.gold for row in rows])), self.student.device)
        with torch.enable_grad():
            layers = range(self.student.shape.layers) if weights.deep else ()
            student = run(self.student, rows, tuple(layers), maps=bool(weights.attention))
            parts = losses(weights, student, teacher, gold, counts)
            total = torch.stack([getattr(weights, name) * value for name, value in parts.items()]).sum()
            parameters = list(self.parameters.values())
            gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        for name, value in parts.items():
            self._sums[name] = self._sums.get(name, 0) + value.detach()

    def clip(self) -> None:
        """Scales the gradients of an update down; ends its sums of losses."""
        torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), LONGEST_GRADIENT)
        names = [name for name in PARTS if name in self._sums]
        values = torch.stack([self._sums[name] for name in names]).tolist()
        self.losses, self._sums = dict(zip(names, values, strict=True)), {}

    def update(self, group: int, done: float) -> None:
        """Updates some parameters when a share of the training is done, and drops their gradients."""
        optimizer = self._groups[group]
        for part in optimizer.param_groups:
            part["lr"] = self.settings.learning_rate * schedule(done, self.settings.warm_up)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if self._sparse:
            held = {id(one) for part in optimizer.param_groups for one in part["params"]}
            with torch.no_grad():
                for name, mask in self._sparse.items():
                    if id(self.parameters[name]) in held:
                        self.parameters[name].mul_(mask)

    def keep_best(self) -> None:
        """Keeps the weights as the best ones so far."""
        for name, values in self.parameters.items():
            self.best[name].copy_(values.detach())

    @torch.no_grad()
    def use_best(self, stored: torch.dtype) -> dict[str, torch.Tensor]:
        """Puts the best weights into the student, as they are stored, and drops what only training needs. Returns the weights
        of its checkpoint, on the host. They stay float32 if `stored` can't hold one of them."""
        if not all(torch.isfinite(values.to(stored)).all() for values in self.best.values()):
            stored = torch.float32
        for name, values in self.parameters.items():
            values.copy_(self.best[name].to(stored))
            values.grad = None
        self.best, self._groups = {}, []
        return {
            name: values.to("cpu", stored if values.is_floating_point() else values.dtype)
            for name, values in stored_weights(self.student.architecture.model).items()
        }

    def saved(self) -> dict[str, torch.Tensor]:
        """Returns all tensors that training goes on from, on the host."""
        found = {f"now.{name}": values.detach() for name, values in self.parameters.items()}
        found |= {f"best.{name}": values for name, values in self.best.items()}
        for number, optimizer in enumerate(self._groups):
            for index, state in optimizer.state_dict()["state"].items():
                found |= {f"{key}.{number}.{index}": value for key, value in state.items()}
        return {name: values.cpu() for name, values in found.items()}

    @torch.no_grad()
    def restore(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Goes on from tensors that `saved` returned. Raises KeyError or RuntimeError for those of another student."""
        for name, values in self.parameters.items():
            values.copy_(saved[f"now.{name}"])
            self.best[name].copy_(saved[f"best.{name}"])
        for number, optimizer in enumerate(self._groups):
            states: dict[int, dict[str, torch.Tensor]] = {}
            for name, value in saved.items():
                key, _, place = name.partition(".")
                if key in MOMENTS and place.startswith(f"{number}."):
                    states.setdefault(int(place.partition(".")[2]), {})[key] = value
            optimizer.load_state_dict({**optimizer.state_dict(), "state": states})


def embeddings_of(model: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """Yields the matrices of a model's embeddings; a decoder may share one."""
    for module in model.modules():
        if isinstance(module, FakeInt8Embedding):
            yield module.exact
        elif isinstance(module, torch.nn.Embedding):
            yield cast("torch.nn.Parameter", module.weight)


def schedule(done: float, warm_up: float) -> float:
    """Returns the share of the learning rate when a share of the training is done: it rises to 1, then falls to 0."""
    if done < warm_up:
        return done / warm_up
    return max(0.0, (1 - done) / (1 - warm_up)) if warm_up < 1 else 1.0


def run(encoder: TorchEncoder, rows: Sequence[Drawn], layers: Sequence[int], *, maps: bool = False) -> Outputs:
    """Runs a model on some rows: its predictions, and the states and maps of layers, ascending."""
    found: dict[int, torch.Tensor] = {}
    watch = {layer: (lambda values, layer=layer: found.__setitem__(layer, values)) for layer in layers} if maps else None
    states = []
    with encoder.in_padded_rows():
        state = encoder.begin([row.sequence for row in rows])
        valid = state.valid
        for layer in layers:
            if layer + 1 < encoder.shape.layers:
                encoder.advance(state, layer + 1, watch=watch)
                states.append(state.hidden)
        encoder.advance(state, encoder.shape.layers, watch=watch)
        if len(states) < len(layers):
            states.append(state.hidden)
        logits = predictions(encoder, state, rows)
    return Outputs(logits, states, [found[layer] for layer in layers] if maps else [], valid)


def predictions(encoder: TorchEncoder, state: State, rows: Sequence[Drawn]) -> torch.Tensor:
    """Returns the scores of the choices of each prediction, float32 [predictions, choices]."""
    head = Predicted.by(encoder.capabilities)
    if head is Predicted.LABEL:
        return encoder.classify(state)
    if head is Predicted.LABEL_SET:
        holds = encoder.classify(state).reshape(-1)  # a sigmoid is a softmax beside 0
        return torch.stack([torch.zeros_like(holds), holds], dim=1)
    numbers = np.repeat(np.arange(len(rows)), [len(row.places) for row in rows])
    places = np.concatenate([row.places for row in rows])
    where = [to_device(torch.from_numpy(one), encoder.device) for one in (numbers, places)]
    return encoder.label_tokens(state)[*where] if head is Predicted.TOKENS else encoder.logits(state, *where)


@dataclass(slots=True, eq=False)
class Scores:
    """How a model does on some texts, a number for each. int64: predictions; answers, those whose gold answer is known; right,
    those that are the gold answer; agreeing, those that are the teacher's. float64, nats: loss, the sum of -log p of the gold
    answers; divergence, the sum of KL(teacher || model)."""

    predictions: NDArray[np.int64]
    answers: NDArray[np.int64]
    right: NDArray[np.int64]
    agreeing: NDArray[np.int64]
    loss: NDArray[np.float64]
    divergence: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence[Scores]) -> Scores:
        """Returns the scores of all texts, in order."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


@torch.no_grad()
def evaluate(models: Sequence[TorchEncoder], rows: Sequence[Drawn]) -> list[Scores]:
    """Returns the scores of models on some rows; the first is the teacher."""
    device = models[0].device
    gold = to_device(torch.from_numpy(np.concatenate([row.gold for row in rows])), device)
    counts = np.array([len(row.gold) for row in rows], dtype=np.int64)
    known, starts = gold >= 0, np.concatenate([[0], np.cumsum(counts)[:-1]])
    teacher, found = None, []
    for model in models:
        logs = run(model, rows, ()).logits.log_softmax(dim=-1)
        teacher = logs if teacher is None else teacher
        own = -logs.gather(1, gold.clamp(min=0)[:, None])[:, 0].masked_fill(~known, 0)
        chosen = logs.argmax(dim=-1)
        columns = (
            known.long(),
            ((chosen == gold) & known).long(),
            (chosen == teacher.argmax(dim=-1)).long(),
            own.double(),
            torch.nn.functional.kl_div(logs, teacher, reduction="none", log_target=True).sum(dim=-1).clamp(min=0).double(),
        )
        found.append(Scores(counts, *(np.add.reduceat(column.cpu().numpy(), starts) for column in columns)))
    return found
