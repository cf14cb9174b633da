"""Quantities of attention from their definitions: transformers in float64, or in float32 to see how much that rounds; every
vector A[i,j] f(x_j) is built."""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from bertscope_service.encoders.sequences import TokenSequence
from numpy.typing import NDArray

from tests.support.reference import Editing, HeadEdits, Reference, Subject

Numbers = NDArray[np.float64]
NOTHING = torch.empty(0)


@dataclass
class Captured:
    """One layer of one text: values [L, heads * head_size], the layer's input, the inputs of its normalisations and the output
    of the first one, all [L, size], and the maps [heads, L, L] before and after its edits."""

    values: torch.Tensor = NOTHING
    before: torch.Tensor = NOTHING
    summed: tuple[torch.Tensor, ...] = ()
    attended: torch.Tensor = NOTHING
    maps: torch.Tensor = NOTHING
    weights: torch.Tensor = NOTHING


class Definitions:
    """The quantities of an architecture's checkpoint, one text at a time."""

    def __init__(self, subject: Subject, dtype: torch.dtype = torch.float64) -> None:
        self.reference: Reference = copy.copy(subject.reference)
        self.reference.model = copy.deepcopy(subject.reference.model).to(dtype)
        self.layers, self.heads = subject.encoder.shape.layers, subject.encoder.shape.heads
        # Of the declaration the names of modules alone are taken, here below the reference's own layers.
        architecture = type(subject.encoder.architecture)(self.reference.model)
        self.modules, self.dense, self.fused = architecture.layers, architecture.output, architecture.fused
        self.value = f"{architecture.attention}.{architecture.inputs[-1]}"
        self.norms_of_sums = None if architecture.norm is None else (architecture.norm, architecture.end_norm)

    @torch.inference_mode()
    def capture(self, sequence: TokenSequence, edits: HeadEdits) -> list[Captured]:
        """Every layer of a text."""
        found = [Captured() for _ in range(self.layers)]

        def note_values(layer: int, given: torch.Tensor, made: torch.Tensor) -> None:
            found[layer].before, found[layer].values = given[0].clone(), self._values_of(made)[0].clone()

        def note_norm(layer: int, given: torch.Tensor, made: torch.Tensor) -> None:
            if not found[layer].summed:
                found[layer].attended = made[0].clone()
            found[layer].summed += (given[0].clone(),)

        with ExitStack() as stack, Editing(edits) as editing:
            stack.enter_context(self._counted(self.value)).append(note_values)
            for path in self.norms_of_sums or ():
                stack.enter_context(self._counted(path)).append(note_norm)
            self.reference.model(**self.reference.inputs([sequence]))
        for one, maps, weights in zip(found, editing.maps, editing.edited, strict=True):
            one.maps, one.weights = maps[0], weights[0]
        return found

    def _values_of(self, made: torch.Tensor) -> torch.Tensor:
        return made.chunk(self.fused, dim=-1)[-1]

    @contextmanager
    def _counted(self, path: str) -> Iterator[list[Callable[[int, torch.Tensor, torch.Tensor], Any]]]:
        """Calls functions with the layer, the input and the output of a module of every layer."""
        told: list[Callable[[int, torch.Tensor, torch.Tensor], Any]] = []
        calls = iter(range(self.layers))

        def hook(_: Any, given: tuple[torch.Tensor, ...], made: torch.Tensor) -> Any:
            layer = next(calls)
            answers = [tell(layer, given[0], made) for tell in told]
            return next((answer for answer in answers if answer is not None), None)

        modules = {id(layer): layer.get_submodule(path) for layer in self.modules}
        handles = [module.register_forward_hook(hook) for module in modules.values()]
        try:
            yield told
        finally:
            for handle in handles:
                handle.remove()

    def vectors(self, one: Captured, layer: int) -> torch.Tensor:
        """[heads, L, size]: (x_j W_V + b_V) W_O of each head."""
        weight = self.modules[layer].get_submodule(self.dense).weight
        size = one.values.shape[1] // self.heads
        parts = [slice(head * size, (head + 1) * size) for head in range(self.heads)]
        return torch.stack([one.values[:, part] @ weight[:, part].T for part in parts])

    def contributions(self, one: Captured, layer: int) -> torch.Tensor:
        """[heads, L, L, size]: A[i,j] f(x_j)."""
        return one.weights[..., None] * self.vectors(one, layer)[:, None]

    @torch.inference_mode()
    def norms(self, sequence: TokenSequence, edits: HeadEdits) -> Numbers:
        """[layers, heads, L, L]"""
        found = [self.contributions(one, layer).norm(dim=-1) for layer, one in enumerate(self.capture(sequence, edits))]
        return torch.stack(found).numpy()

    @torch.inference_mode()
    def layer_norms(self, sequence: TokenSequence, edits: HeadEdits) -> Numbers:
        """[layers, 1, L, L]"""
        found = [
            self.contributions(one, layer).sum(0).norm(dim=-1)[None] for layer, one in enumerate(self.capture(sequence, edits))
        ]
        return torch.stack(found).numpy()

    def normalised(self, one: Captured, layer: int, norms: int) -> torch.Tensor:
        """[L, L, size]: what each token gives to a layer after so many of its normalisations."""
        assert self.norms_of_sums is not None
        vectors = self.contributions(one, layer).sum(0)
        for token in range(len(vectors)):
            vectors[token, token] += one.before[token]
        for path, summed in list(zip(self.norms_of_sums, one.summed, strict=True))[:norms]:
            norm = self.modules[layer].get_submodule(path)
            deviation = (summed.var(dim=-1, correction=0) + norm.eps).sqrt()
            vectors = (vectors - vectors.mean(-1, keepdim=True)) / deviation[:, None, None] * norm.weight
        return vectors

    @torch.inference_mode()
    def layer_output_norms(self, sequence: TokenSequence, edits: HeadEdits) -> Numbers:
        """[layers, 1, L, L]"""
        captured = enumerate(self.capture(sequence, edits))
        return torch.stack([self.normalised(one, layer, 1).norm(dim=-1)[None] for layer, one in captured]).numpy()

    @torch.inference_mode()
    def alti(self, sequence: TokenSequence, edits: HeadEdits) -> Numbers:
        """[layers, 1, L, L]"""
        product, found = torch.eye(len(sequence), dtype=self.reference.model.dtype), []
        for layer, one in enumerate(self.capture(sequence, edits)):
            output = one.attended[:, None]
            distances = (output - self.normalised(one, layer, 1)).abs().sum(-1)
            near = (output.abs().sum(-1) - distances).clamp(min=0)
            product = near / near.sum(-1, keepdim=True) @ product
            found.append(product[None])
        return torch.stack(found).numpy()

    @torch.inference_mode()
    def globenc(self, sequence: TokenSequence, edits: HeadEdits) -> Numbers:
        """[layers, 1, L, L]"""
        product, found = torch.eye(len(sequence), dtype=self.reference.model.dtype), []
        for layer, one in enumerate(self.capture(sequence, edits)):
            product = self.normalised(one, layer, 2).norm(dim=-1) @ product
            found.append((product / product.sum(-1, keepdim=True))[None])
        return torch.stack(found).numpy()

    def rollout(self, sequence: TokenSequence, edits: HeadEdits, *, residual: bool = True) -> Numbers:
        """[layers, 1, L, L]"""
        product, found = np.eye(len(sequence)), []
        for one in self.capture(sequence, edits):
            mixed = one.maps.numpy().mean(axis=0)
            if residual:
                mixed = (mixed + np.eye(len(sequence))) / 2
            product = mixed / mixed.sum(axis=1, keepdims=True) @ product
            found.append(product[None])
        return np.stack(found)

    @torch.inference_mode()
    def value_zeroing(self, sequence: TokenSequence, edits: HeadEdits) -> Numbers:
        """[layers, 1, L, L]; the model runs again for every layer and token."""
        plain, length = self.reference.run_edited(sequence, edits).hidden, len(sequence)
        found = np.zeros((self.layers, 1, length, length))
        for layer in range(self.layers):
            for token in range(length):

                def zero(at: int, _: torch.Tensor, made: torch.Tensor, layer: int = layer, token: int = token) -> Any:
                    if at == layer:
                        changed = made.clone()
                        self._values_of(changed)[0, token] = 0
                        return changed
                    return None

                with self._counted(self.value) as told:
                    told.append(zero)
                    changed = self.reference.run_edited(sequence, edits).hidden[layer + 1][0]
                found[layer, 0, :, token] = 1 - torch.cosine_similarity(plain[layer + 1][0], changed, dim=-1).numpy()
        found = np.where(found < 1e-12, 0, found)  # rounding
        total = found.sum(axis=-1, keepdims=True)
        return found / np.where(total > 0, total, 1)
