"""On a GPU: the scores of linked words and of features that the CPU gives."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.features import FeaturePlan, FeatureQuery, MarkedText
from bertscope_service.analyses.relations import LinkedText, RelationPlan, RelationQuery
from bertscope_service.analyses.words import Span
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.on_gpu import DEVICE
from tests.support.reference import Subject
from tests.support.relations import LINKED
from tests.support.tiny import ARCHITECTURES


@pytest.fixture(scope="module", params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))


@torch.inference_mode()
def run(rows: Sequence[tuple[TokenSequence, Observer]], encoder: Encoder) -> list[Any]:
    observers: list[Any] = [observer for _, observer in rows]
    readout = type(observers[0]).run(encoder, encoder.begin([sequence for sequence, _ in rows]), None, observers)
    assert {tensor.device.type for tensor in readout.tensors} == {encoder.device.type}
    found: list[Any] = readout.deal(tuple(tensor.cpu().numpy() for tensor in readout.tensors))
    return found


def on_gpu(subject: Subject) -> TorchEncoder:
    return load_encoder(subject.folder, subject.architecture, device=DEVICE, precision="fp32")


def test_relations(subject: Subject) -> None:
    texts = tuple(
        LinkedText(
            (text.texts[0], text.texts[1] if len(text.texts) > 1 else None),
            tuple(Span(*word) for word in text.words),
            np.array(text.pairs, dtype=np.int64),
        )
        for text in LINKED
    )
    plan = RelationPlan(RelationQuery(texts, ("a", "b", "c"), details=False), subject.tokenizer, subject.encoder.shape)
    for one, other in zip(run(plan.rows, on_gpu(subject)), run(plan.rows, subject.encoder), strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=0, atol=1e-4)
        np.testing.assert_allclose(one.offset_weights, other.offset_weights, rtol=0, atol=1e-3)
        # Where two weights are as good as equal, either may be the larger one.
        assert (one.hits != other.hits).mean() < 0.01
        assert (one.offset_hits != other.offset_hits).mean() < 0.05


def test_features(subject: Subject) -> None:
    texts = tuple(
        MarkedText(
            (text.texts[0], text.texts[1] if len(text.texts) > 1 else None),
            tuple((number % 2, Span(*word)) for number, word in enumerate(text.words)),
        )
        for text in LINKED
    )
    plan = FeaturePlan(FeatureQuery(texts, ("a", "b"), special_tokens=True), subject.tokenizer, subject.encoder.shape)
    for one, other in zip(run(plan.rows, on_gpu(subject)), run(plan.rows, subject.encoder), strict=True):
        np.testing.assert_allclose(one.means, other.means, rtol=0, atol=1e-4)
        np.testing.assert_allclose(one.from_source, other.from_source, rtol=0, atol=1e-4)
