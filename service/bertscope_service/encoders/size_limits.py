"""Defines how much a device does at a time, by its type: sizes of batches, of intermediate tensors, and of steps of training.

On a CPU, an intermediate tensor should stay in the cache, and a step should take some milliseconds: other callers' rows wait
meanwhile. On a GPU, launches bound a step from below, some 5 us of the host each: in a step that works for less than about
0.2 ms, the device waits for the host. Other callers bound it from above there, too (some milliseconds), and memory does. Values
for a GPU are worked out, but for the tokens of a batch: from a card that reads and writes 2.5 TB/s, and does 25e12
multiplications a second in fp32 or ten times as many in bf16 (an H100). `make gpu` measures both: an H200 3.8 TB/s, 25e12, and
375e12.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import torch

CPU = torch.device("cpu")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """The sizes that a device works on at a time, unless a single row, map, or probe takes more."""

    batch_tokens: int
    """Tokens in a batch, padding included, unless the settings say otherwise."""
    logits_bytes: int
    """Scores over a vocabulary, float32, that are held at a time."""
    softmax_bytes: int
    """Scores whose log-probabilities are held at a time."""
    map_bytes: int
    """Attention maps, or vectors of pairs of tokens, float32, that are reduced at a time; a reduction of maps takes up to eight
    times as much."""
    contribution_bytes: int
    """An intermediate tensor, float32, of the norms of contributions, or of value zeroing."""
    zeroing_tokens: int
    """Tokens of one layer that a step of value zeroing runs."""
    gradient_tokens: int
    """Tokens of a backward pass, which holds the output of every layer: 1.2 MB a token of a bert-base in fp32."""
    step_products: int
    """Multiplications of the product of a step of training, or of evaluation; training takes three such products."""
    vocabulary_products: int
    """Multiplications of the product with the vocabulary in a part of a step of a tuned lens."""
    distilled_products: int
    """Multiplications of a teacher's and a student's products in a part of an update of the student."""
    updated_values: int
    """Parameters that Adam updates in a step of a tuned lens or of structural probes, each in seven tensors."""
    minimised_values: int
    """Parameters of linear probes that L-BFGS moves in a step, each in some thirty tensors."""
    evaluated_spans: int
    """Spans whose states are read at a time."""
    kept_bytes: int
    """States of spans that one training keeps on the device; more stay on the host."""
    structural_words: int
    """Words, padding included, that a part of a step of structural probes predicts."""
    structural_pairs: int
    """Pairs of words times probes that such a part predicts."""


LIMITS = {
    "cpu": SizeLimits(
        batch_tokens=1024,
        logits_bytes=64 * MIB,
        # Larger tensors get new pages from the system each time, which takes four times as long as the softmax.
        softmax_bytes=2 * MIB,
        # They stay in the cache from one reduction to the next; larger ones get new pages, too.
        map_bytes=2 * MIB,
        contribution_bytes=16 * MIB,
        zeroing_tokens=8192,  # less than a second
        gradient_tokens=256,  # a bert-base: 0.3 GB
        step_products=200_000_000,  # some milliseconds, as are all below but for the next
        vocabulary_products=500_000_000,  # some tens of milliseconds
        distilled_products=1_500_000_000,  # likewise, a text of 40 tokens of a small model
        updated_values=1_000_000,
        minimised_values=150_000,
        evaluated_spans=256,
        kept_bytes=64 * MIB,
        structural_words=512,
        structural_pairs=2_000_000,
    ),
    "cuda": SizeLimits(
        # On an H200 in bf16, 8 ms of a bert-base and 22 ms of a bert-large; twice as many give 3 to 14 % more, and others wait
        # twice as long.
        batch_tokens=16_384,
        # 2,200 positions of 30,522 entries: 0.1 ms for a product in bf16, and 0.1 ms for each reading of the scores.
        logits_bytes=256 * MIB,
        softmax_bytes=256 * MIB,  # all that are held
        # 0.1 ms for each reading; eight times as much is 2 GiB. A batch of 32 texts of 512 tokens and 12 heads is two parts.
        map_bytes=256 * MIB,
        contribution_bytes=256 * MIB,
        # The feed-forward layer of a bert-base: 5.3e6 multiplications a token, 7 ms in fp32 and 1 ms in bf16.
        zeroing_tokens=32_768,
        # A bert-base: 2.5 GB; 20 ms in fp32, and in bf16 3 ms, as long as it takes to launch the pass.
        gradient_tokens=2048,
        step_products=8_000_000_000,  # training: 1 ms
        vocabulary_products=8_000_000_000,
        distilled_products=100_000_000_000,  # in fp32: 4 ms
        updated_values=64_000_000,  # 1.8 GB: 0.7 ms
        minimised_values=16_000_000,  # 1.9 GB: 0.8 ms
        evaluated_spans=4096,  # of 13 layers of 768 numbers: 160 MB
        kept_bytes=4096 * MIB,  # a twentieth of the memory: several trainings run beside the models
        structural_words=4096,  # 20 texts, those of a step, of up to 200 words
        structural_pairs=32_000_000,  # 0.8 GB
    ),
}
"""The limits by type of device; a device of another type (mps) has those of a CPU."""

CARD_BYTES = 64 * 1024 * MIB
"""A GPU with less memory has a share of the limits of LIMITS, for it computes less in a millisecond, too."""


def size_limits(device: torch.device) -> SizeLimits:
    """Returns the limits of a device: on a GPU with less than CARD_BYTES a share of them, but not less than a CPU's. Batches
    have as many tokens on all GPUs."""
    if device.type != "cuda":
        return LIMITS["cpu"]
    return _of_card(LIMITS["cuda"], LIMITS["cpu"], torch.cuda.get_device_properties(device).total_memory)


@lru_cache
def _of_card(limits: SizeLimits, least: SizeLimits, memory: int) -> SizeLimits:
    """Returns the limits of a GPU of so much memory, bytes."""
    if memory >= CARD_BYTES:
        return limits
    names = [field.name for field in fields(limits) if field.name != "batch_tokens"]
    return replace(limits, **{name: max(getattr(least, name), getattr(limits, name) * memory // CARD_BYTES) for name in names})
