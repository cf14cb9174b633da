"""Declares the calls that train structural probes: `train_structural_probe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.probes.probes import Pooling
from bertscope.questions.probes.structural_probes import (
    Quantity,
    StructuralProbeAssembler,
    StructuralProbeProgress,
    StructuralProbeResult,
    with_trees,
)
from bertscope.questions.probes.tree_texts import TreeText
from bertscope.rpc.uniform import trained


class StructuralProbeCalls(Protocol):
    """The methods of `AsyncClient` that train structural probes."""

    @trained(
        with_trees,
        StructuralProbeAssembler,
        StructuralProbeProgress,
        lacking="training without a report",
        order="quantity dev test model layers rank pooling max_epochs patience seeds seed truncate memory_bytes",
    )
    def train_structural_probe(
        self,
        train: TreeText | Iterable[TreeText],
        *,
        quantity: Quantity = "distance",
        dev: TreeText | Iterable[TreeText] = (),
        test: TreeText | Iterable[TreeText] = (),
        pooling: Pooling = "mean",
        seeds: SupportsIndex = 1,
        seed: SupportsIndex = 0,
    ) -> StructuralProbeResult:
        """Trains a structural probe on the states of each layer, on the server (Hewitt and Manning 2019).

        A probe is a linear map B to `rank` dimensions under which squared distances between words are those in the sentence's
        tree, or with `quantity` "depth" squared norms are the words' depths. Scores are of `test`, or of `dev` without it.

        All texts go in one call, of no more bytes than the server takes (16 MiB) and 512 words in a text. Ctrl-C ends it.
        """
