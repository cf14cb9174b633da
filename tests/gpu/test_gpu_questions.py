"""On a GPU: the answers of all kinds of questions, beside edited rows, are those of the CPU."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.on_gpu import DEVICE
from tests.support.questions_of_rows import QUESTIONS, answers, assert_same, gates, offered, sequences


@dataclass
class Both:
    """The same model on the GPU and on the CPU."""

    name: str
    on_gpu: TorchEncoder
    on_cpu: TorchEncoder


@pytest.fixture(scope="module", params=["bert", "mobilebert"])
def both(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Both:
    folder = checkpoint(request.param)
    on_gpu, on_cpu = (
        load_encoder(folder, request.param, device=device, precision="fp32", pack=False)
        for device in (DEVICE, torch.device("cpu"))
    )
    return Both(request.param, on_gpu, on_cpu)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_those_of_the_cpu(both: Both, question: str) -> None:
    if question not in offered(both.on_cpu):
        pytest.skip("the architecture refuses this question")
    found, expected = (answers(encoder, question, sequences(encoder)) for encoder in (both.on_gpu, both.on_cpu))
    assert_same(found, expected)


@pytest.mark.parametrize("kind", ["zero", "uniform", "scale", "mean", "sites"])
@pytest.mark.parametrize("question", ["DescribeAttention", "AttributeWords gradients"])
def test_rows_beside_edited_ones(both: Both, question: str, kind: str) -> None:
    found, expected = (
        answers(encoder, question, sequences(encoder), lambda row, encoder=encoder: gates(encoder, kind) if row % 2 else None)
        for encoder in (both.on_gpu, both.on_cpu)
    )
    # Rounding is amplified on the way back through MobileBERT, which has no layer normalisation.
    assert_same(found, expected, 5e-4 if "gradients" in question else 1e-4)


def test_a_second_device(checkpoint: Callable[[str], Path], both: Both) -> None:
    """Nothing of its batches lies on the first one."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    second = torch.device("cuda:1")
    torch.cuda.set_device(second)  # as its device thread does
    try:
        encoder = load_encoder(checkpoint(both.name), both.name, device=second, precision="fp32", pack=False)
        for question in ("FillMask candidates", "DescribeAttention", "Inspect"):
            assert_same(answers(encoder, question, sequences(encoder)), answers(both.on_cpu, question, sequences(both.on_cpu)))
    finally:
        torch.cuda.set_device(DEVICE)
