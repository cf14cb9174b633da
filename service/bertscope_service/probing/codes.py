"""Trains a sparse code of states: a BatchTopK sparse autoencoder (Bussmann, Leask and Nanda 2024, section 3), a TopK one (Gao
et al. 2024, section 2.3) whose codes compete over a batch.

A state x is read as y = (x - mean) / distance, with the mean of the training pieces and the square root of their mean squared
distance from it. Code c has z = max(0, w_c . y + b_c). In training the largest z of a batch stay, `active` a piece on average,
and y is the sum of z_c d_c over them, with decoder rows d_c of length 1. Training minimises the squared error, and the error
that codes which have been silent leave of what the others did not explain (the auxiliary loss of Gao et al., appendix A.2), by
Adam, from w_c = d_c, drawn at random. Afterwards a threshold replaces the competition (Bussmann et al., equation 7): a code's
activation is z where z > threshold, else 0, so that it depends on the state alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bertscope_service.encoders.size_limits import CPU, SizeLimits, size_limits
from bertscope_service.probing.blocks import step_tokens

BATCH = 512
"""Pieces in a step."""
SILENT_PIECES = 50 * BATCH
"""A code that was not active for so many pieces is silent."""
REVIVED_SHARE = 1 / 32
"""The weight of the auxiliary loss (Gao et al. 2024, appendix A.2)."""
DECAY_SHARE = 0.2
"""The last share of the steps, over which the learning rate falls to 0."""
COPIES = 5
"""Tensors as large as the dictionary: it, its gradient, Adam's two averages, and one more."""
BATCH_COPIES = 6
"""Tensors as large as the activations of a part of a step."""


@dataclass(frozen=True, slots=True)
class CodesSize:
    """The size of a training: length of a state, number of codes, codes that are active at a piece on average; and the device
    that trains."""

    hidden: int
    codes: int
    active: int
    device: torch.device = CPU

    @property
    def limits(self) -> SizeLimits:
        """The sizes that the device works on at a time."""
        return size_limits(self.device)

    @property
    def part(self) -> int:
        """The pieces in a part of a step, which compete with one another."""
        return max(1, min(BATCH, self.limits.vocabulary_products // (self.hidden * self.codes)))

    @property
    def bytes(self) -> int:
        """The memory that training takes beside the states, approximately."""
        return 4 * (2 * COPIES * self.codes * (self.hidden + 1) + BATCH_COPIES * self.part * self.codes)

    @property
    def part_tokens(self) -> int:
        """The tokens that encoding a part counts as; see blocks.step_tokens. Training takes five times as many."""
        return step_tokens(self.part * self.hidden * self.codes)

    @property
    def update_tokens(self) -> int:
        """The tokens that a step of Adam counts as."""
        return step_tokens(0, 2 * COPIES * self.codes * self.hidden)

    def parts(self, chosen: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yields the numbers of some pieces in parts that are read at a time."""
        yield from chosen.split(self.part)


class CodesTraining:
    """A sparse code that trains for a number of `steps`. Methods run on the device's thread, outside inference mode. States are
    y of the module's docstring, float32 [pieces, hidden]."""

    def __init__(self, size: CodesSize, rate: float, steps: int, seed: int) -> None:
        self.size, self._first_rate, self.steps = size, rate, steps
        generator = torch.Generator(device="cpu").manual_seed(seed)
        drawn = torch.randn((size.codes, size.hidden), generator=generator, dtype=torch.float32, device="cpu")
        rows = (drawn / drawn.norm(dim=1, keepdim=True)).to(size.device)
        self.encoder, self.decoder = rows.clone().requires_grad_(), rows.clone().requires_grad_()
        """w and d, [codes, hidden]."""
        self.biases = torch.zeros(size.codes, dtype=torch.float32, device=size.device).requires_grad_()
        """b, [codes]."""
        self.threshold = 0.0
        """The threshold that a code's z must exceed, once it was set."""
        self.done = 0
        """Steps that were taken."""
        self._parameters = [self.encoder, self.biases, self.decoder]
        self._adam = torch.optim.Adam(self._parameters, lr=rate)
        self._silent = torch.zeros(size.codes, dtype=torch.int64, device=size.device)

    def accumulate(self, states: torch.Tensor, pieces: int) -> None:
        """Adds the gradient of a part of a step of so many pieces."""
        with torch.enable_grad():
            kept = self._compete(self._read(states))
            error = states - kept @ self.decoder
            loss = error.square().sum() + REVIVED_SHARE * self._revival(states, error.detach())
            gradients = torch.autograd.grad(loss / pieces, self._parameters)
        for values, gradient in zip(self._parameters, gradients, strict=True):
            values.grad = gradient if values.grad is None else values.grad + gradient
        fired = (kept.detach() > 0).any(dim=0)
        self._silent.add_(len(states)).masked_fill_(fired, 0)

    @torch.no_grad()
    def update(self) -> None:
        """Takes Adam's step along the gradients added, on which the rows of the decoder keep length 1."""
        decay = DECAY_SHARE * self.steps
        for group in self._adam.param_groups:
            group["lr"] = self._first_rate * min(1.0, (self.steps - self.done) / max(1.0, decay))
        gradient = self.decoder.grad
        if gradient is None:
            raise RuntimeError("a step without a gradient")
        gradient.sub_((gradient * self.decoder).sum(dim=1, keepdim=True) * self.decoder)
        self._adam.step()
        self._adam.zero_grad()
        self.decoder.div_(self.decoder.norm(dim=1, keepdim=True))
        self.done += 1

    @torch.no_grad()
    def least(self, states: torch.Tensor) -> torch.Tensor:
        """Returns the least activation that stays when a part's pieces compete, float32 []; infinite if none is above 0."""
        kept = self._compete(self._read(states))
        return torch.where(kept > 0, kept, torch.inf).min()

    @torch.no_grad()
    def activations(self, states: torch.Tensor) -> torch.Tensor:
        """Returns the activations of states by the threshold, [pieces, codes]."""
        found = self._read(states)
        return torch.where(found > self.threshold, found, 0)

    def _read(self, states: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.biases, states, self.encoder.T).relu()

    def _compete(self, found: torch.Tensor) -> torch.Tensor:
        """Returns activations [pieces, codes] of which only the largest stay."""
        flat = found.flatten()
        values, places = flat.topk(min(len(flat), len(found) * self.size.active), sorted=False)
        return torch.zeros_like(flat).scatter(0, places, values).view_as(found)

    def _revival(self, states: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        """Returns the squared error that the silent codes with the largest activations leave of an error."""
        silent = torch.nonzero(self._silent > SILENT_PIECES)[:, 0]
        if not len(silent):
            return torch.zeros((), dtype=torch.float32, device=states.device)
        found = torch.addmm(self.biases[silent], states, self.encoder[silent].T).relu()
        values, places = found.topk(min(len(silent), self.size.hidden // 2), dim=1, sorted=False)
        kept = torch.zeros_like(found).scatter(1, places, values)
        left: torch.Tensor = (error - kept @ self.decoder[silent]).square().sum()
        return left
