"""Runs transformers 4's `head_mask` as a peer, in another process: transformers 5 no longer has it.

`BERTSCOPE_BENCH_TRANSFORMERS4` names an interpreter that has it:

    python -m venv t4 && t4/bin/pip install torch "transformers<5"
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Self

import numpy as np
import torch
from bertscope_service.analyses.objectives.masked_lm import MaskedLmObjective
from numpy.typing import NDArray

INTERPRETER = os.environ.get("BERTSCOPE_BENCH_TRANSFORMERS4", "")


class HeadMask:
    """The losses with each head closed, [heads, texts], by the other interpreter."""

    def __init__(self, folder: Path, objective: MaskedLmObjective, batch: int) -> None:
        probes = objective.losses
        self._job = {
            "folder": str(folder),
            "threads": torch.get_num_threads(),
            "batch": batch,
            "ids": [list(sequence.ids) for sequence in objective.sequences],
            "positions": [probe.positions for probe in probes],  # type: ignore[attr-defined]
            "golds": [probe.golds[:, 0].tolist() for probe in probes],  # type: ignore[attr-defined]
        }

    def __enter__(self) -> Self:
        script = Path(__file__).with_name("head_mask_peer.py")
        self._process = subprocess.Popen([INTERPRETER, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._tell(json.dumps(self._job))
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()

    def __call__(self) -> NDArray[np.float64]:
        self._tell("go")
        return np.array(json.loads(self._process.stdout.readline()))  # type: ignore[union-attr]

    def _tell(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]
