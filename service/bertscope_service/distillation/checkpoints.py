"""Makes the untrained student's checkpoint, and writes the trained one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bertscope_service.checkpoints.check import check_source
from bertscope_service.checkpoints.manifest import Manifest, read_manifest, write_manifest
from bertscope_service.checkpoints.sources import Source, calling, inspect
from bertscope_service.checkpoints.steps import Applied, Int8, OnnxExport, Step, WeightOnly
from bertscope_service.checkpoints.steps import Half as HalfPrecision
from bertscope_service.compression.compress import compress, written_by
from bertscope_service.compression.working_copy import copy_description, stored_format
from bertscope_service.encoders.torch.weights import save_checkpoint
from bertscope_service.errors import FailedPrecondition

FORMATS = (Int8, WeightOnly, HalfPrecision, OnnxExport)
"""Steps that say how the trained student is stored; all others make it."""
Report = Callable[[object], None]


@dataclass(frozen=True, slots=True)
class Student:
    """The checkpoints of a student in a temporary folder. digest: that of the teacher's weights."""

    teacher: Source
    digest: str
    steps: Sequence[Step]
    folder: Path

    def make(self, report: Report) -> Path:
        """Writes the untrained student and returns its folder. `report` is called regularly and may raise to abandon it.

        Raises FailedPrecondition for a teacher that has changed since it was loaded, and the steps' errors.
        """
        with self.teacher.named(), calling((self.folder, "the student")):
            if self.teacher.digest(report) != self.digest:
                message = f"the weights in {self.teacher.folder} have changed since they were loaded; load them again"
                raise FailedPrecondition(message, "SOURCE_CHANGED", source=str(self.teacher.folder))
            check_source(self.teacher)
            changes = [step for step in self.steps if not isinstance(step, FORMATS)]
            compress(self.teacher, changes, self.folder / "untrained", report, self.digest)
        return self.folder / "untrained"

    def stored(self) -> torch.dtype:
        """Returns the number format of the teacher's weights, in which the trained student is stored, too."""
        return stored_format(self.teacher)

    def write(
        self,
        model: Any,
        weights: Mapping[str, torch.Tensor],
        applied: Applied,
        target: Path,
        report: Report,
        documents: Callable[[Sequence[Applied]], Mapping[str, str]],
    ) -> None:
        """Writes the trained student, in its number format, into the folder `target`, which appears complete: with a manifest,
        and the documents that are made from all its steps."""
        untrained, trained = self.folder / "untrained", self.folder / "trained"
        with calling((self.folder, "the student")):
            trained.mkdir()
            copy_description(untrained, trained)
            stored = next(values.dtype for values in weights.values() if values.is_floating_point())
            save_checkpoint(model, weights, trained, stored)
            before = read_manifest(untrained)
            steps = (*(before.steps if before else ()), applied)
            write_manifest(trained, Manifest("torch", self.digest, steps, written_by(export=False)))
            formats = [step for step in self.steps if isinstance(step, FORMATS)]
            compress(inspect(trained), formats, target, report, self.digest, documents)
