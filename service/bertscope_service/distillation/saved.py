"""Keeps what a training goes on from in a folder beside the new model's, so that a killed server loses minutes.

The file appears whole or not at all. It belongs to one request: the same texts, settings, steps and weights of the teacher.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from bertscope_service.checkpoints.atomic_folder import unwritable
from bertscope_service.errors import FailedPrecondition

SUFFIX = ".training"
FILE = "training.safetensors"
KEY = "bertscope"


@dataclass(slots=True)
class Position:
    """Where a training is. batch: those of the epoch that are done. seen: texts. losses: on dev, the first one before training,
    then at each evaluation."""

    epoch: int = 0
    batch: int = 0
    seen: int = 0
    updates: int = 0
    best_update: int = 0
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SavedTraining:
    """The file that a training goes on from, in `folder`. fingerprint: that of the request."""

    folder: Path
    fingerprint: str

    @classmethod
    def beside(cls, folder: Path, request: Mapping[str, Any]) -> SavedTraining:
        """Returns that of the model to be saved in `folder`; `request` is all that decides what comes out."""
        written = json.dumps(request, sort_keys=True, default=str).encode()
        return cls(folder.with_name(folder.name + SUFFIX), hashlib.sha256(written).hexdigest())

    def read(self) -> tuple[Position, dict[str, torch.Tensor]] | None:
        """Returns where the training is, and its tensors; None if it has not begun. Raises FailedPrecondition for a file that
        can't be read, or of another training."""
        file = self.folder / FILE
        if not file.exists():
            return None
        try:
            with safe_open(file, "pt") as opened:
                about = json.loads(opened.metadata()[KEY])
                if about["fingerprint"] != self.fingerprint:
                    raise self._unusable("holds another training")
                return Position(**about["position"]), {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise self._unusable(f"can't be read ({type(error).__name__})") from error

    def write(self, position: Position, tensors: Mapping[str, torch.Tensor]) -> None:
        """Replaces the file. Raises FailedPrecondition for a folder that can't be written, or a full disk."""
        about = {"fingerprint": self.fingerprint, "position": asdict(position)}
        unfinished = self.folder / f"{FILE}.unfinished"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_file(dict(tensors), unfinished, {KEY: json.dumps(about)})
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            unfinished.replace(self.folder / FILE)
        except (OSError, SafetensorError) as error:
            raise unwritable(self.folder, error) from error

    def remove(self) -> None:
        """Deletes the folder, when the result is saved."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _unusable(self, why: str) -> FailedPrecondition:
        message = f"{self.folder} {why}; send the request that began it to go on, or delete it, or name another folder"
        return FailedPrecondition(message, "TRAINING_UNREADABLE", folder=self.folder)
