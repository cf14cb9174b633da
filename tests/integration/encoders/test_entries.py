"""Scores of some entries of the vocabulary are those among all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.encoders.torch.encoder import TorchEncoder

from tests.support.family import FAMILY
from tests.support.reference import Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.tiny import write_checkpoint


@torch.inference_mode()
def check(encoder: TorchEncoder, subject: Subject) -> None:
    """At several positions of each text, in one padded batch."""
    batch = subject.sequences[:6]
    state = encoder.begin(batch)
    encoder.advance(state, encoder.shape.layers)
    rows = torch.arange(len(batch)).repeat_interleave(2)
    positions = torch.tensor([place for one in batch for place in (0, len(one) // 2)])
    every = encoder.logits(state, rows, positions)
    ids = torch.arange(36).view(12, 3) * 7 % encoder.shape.vocabulary_size
    found = encoder.entry_logits(state, rows, positions, ids)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, every.gather(1, ids), rtol=0, atol=BOTH_SIDES * float(every.abs().max()))


@pytest.mark.parametrize("architecture", FAMILY)
def test_entries_have_their_logits(architecture: str, tmp_path: Path) -> None:
    settings: list[Mapping[str, Any]] = [{}, {"tie_word_embeddings": False}]
    for number, own in enumerate(settings):
        subject = Subject(architecture, write_checkpoint(architecture, tmp_path / str(number), settings=own))
        for pack in (True, False):
            check(subject.load(pack=pack), subject)
