"""Launches a batch of each question while PyTorch refuses whatever makes the host wait for the device."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder

from benchmarks.gpu.report import Row

ROWS, LENGTH = 8, 24

CHANGED = ("FillMask", "Inspect", "RankHeads", "ExtractAttention", "ExtractHiddenStates", "AttributeWords gradients")
"""Questions that are also tried with changes at every site, in every other row."""


def measure_waits(device: torch.device, architectures: tuple[str, ...], failed: list[str]) -> Iterator[Row]:
    """Yields a row for each architecture, and one for each question that waits, whose name goes to `failed`, too.

    Only launches are watched: what follows waits for the results, by an event.
    """
    asked, tiny = _support("questions_of_rows"), _support("tiny")
    for architecture in architectures:
        with tempfile.TemporaryDirectory() as folder:
            tiny.write_checkpoint(architecture, Path(folder))
            encoder = load_encoder(Path(folder), architecture, device=device, precision="fp32", pack=False)
        questions, waiting = asked.offered(encoder), 0
        beside = {"": [None, None], ", sites changed": [None, asked.gates(encoder, "sites")]}
        tried = [(question, manner) for question in questions for manner in beside if not manner or question in CHANGED]
        for question, manner in tried:
            error = _wait(asked, encoder, question, beside[manner])
            if error is not None:
                waiting += 1
                failed.append(f"{question}{manner} on {architecture} waits for the device in its launch")
                yield f"{architecture}: {question}{manner}", error, "", "waits"
        count = len(tried)
        if device.type != "cuda":
            yield f"{architecture}: questions launched; waits are seen on a GPU alone", str(count), f"of {count}", ""
            continue
        met = "" if waiting else "met"
        yield f"{architecture}: questions launched without a wait", str(count - waiting), f"of {count}", met


def _support(name: str) -> Any:
    """Returns a module of the tests, which no other benchmark needs."""
    return importlib.import_module(f"tests.support.{name}")


def _wait(asked: Any, encoder: TorchEncoder, question: str, edits: Sequence[Any]) -> str | None:
    """Returns PyTorch's complaint about a question's launch; None if it does not wait. asked: the module of the questions.
    edits: those of even and of odd rows."""

    def by_row(row: int) -> Any:
        return edits[row % 2]

    rows = asked.sequences(encoder, ROWS, LENGTH)
    asked.answers(encoder, question, rows, by_row)  # what is made once, when a question is first asked, may wait
    if encoder.device.type != "cuda":
        return None
    torch.cuda.synchronize(encoder.device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        asked.launched(encoder, question, rows, by_row)
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        return str(error).partition("\n")[0]
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize(encoder.device)
    return None
