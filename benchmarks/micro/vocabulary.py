"""Times reading scores over a vocabulary on a CPU, against the plain PyTorch that says the same in one line.

One thread, so that others on the machine disturb little; `ATEN_CPU_CAPABILITY=avx2` or `default` holds PyTorch to fewer
instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from bertscope_service.analyses.observers.reading import likeliest, log_probabilities, ranks_of

from benchmarks.lib.measure import Claim, in_turn

VOCABULARIES, POSITIONS, TOP_K = (30_522, 250_002), (1, 8, 64, 256), (1, 5, 100)
ASKED = 5
"""Entries whose ranks are counted."""

READ = 2_000_000_000
"""Numbers that each side reads in a round, as often as it takes: tens of milliseconds."""


def claims(rounds: int) -> Iterator[Claim]:
    """Microseconds for a position of the likeliest entries, of the log-probability of one entry, and of the ranks of five."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            for vocabulary in VOCABULARIES:
                for positions in POSITIONS:
                    yield from _compare(vocabulary, positions, rounds)
    finally:
        torch.set_num_threads(threads)


def _compare(vocabulary: int, positions: int, rounds: int) -> Iterator[Claim]:
    logits = 3 * torch.randn(positions, vocabulary, generator=torch.Generator().manual_seed(5))
    ids = torch.randint(0, vocabulary, (positions, ASKED), generator=torch.Generator().manual_seed(6))
    found, (first, *_) = logits.gather(1, ids), ids.split(1, dim=1)
    sides: dict[str, tuple[Callable[[], torch.Tensor], Callable[[], torch.Tensor]]] = {
        f"the {top_k} likeliest / topk": (
            lambda top_k=top_k: logits.gather(1, likeliest(logits, top_k)),  # type: ignore[misc]
            lambda top_k=top_k: logits.topk(top_k, dim=-1).values,  # type: ignore[misc]
        )
        for top_k in TOP_K
    }
    sides["log-probability of an entry / logsumexp"] = (
        lambda: log_probabilities(logits, first),
        lambda: logits.gather(1, first) - logits.logsumexp(dim=-1, keepdim=True),
    )
    sides[f"ranks of {ASKED} entries / a comparison and a sum for each"] = (
        lambda: ranks_of(logits, found),
        lambda: torch.stack([1 + (logits > column[:, None]).sum(dim=1) for column in found.unbind(1)], dim=1),
    )
    times = max(1, READ // (100 * logits.numel()))
    for what, (ours, plain) in sides.items():
        torch.testing.assert_close(ours(), plain(), atol=1e-5, rtol=1e-5)
        pair = in_turn(lambda: [ours() for _ in range(times)], lambda: [plain() for _ in range(times)], rounds)  # noqa: B023 - called at once
        unit = 1e6 / (times * positions)
        yield pair.claim(f"{vocabulary:,} entries, {positions}: {what}", "", lambda taken: f"{taken * unit:.1f} us")  # noqa: B023
