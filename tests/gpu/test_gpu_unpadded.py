"""On a GPU: batches run without padding, in number formats that have a kernel for that."""

from pathlib import Path

import pytest
import torch
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu import kernels
from tests.support.questions_of_rows import QUESTIONS, answers, assert_same, gates, offered, sequences
from tests.support.tiny import ARCHITECTURES, write_checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_answers_without_padding(architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last digits, which half precision hides: the pretended kernel takes float32, too."""
    monkeypatch.setattr(kernels, "DTYPES", [torch.float32])
    write_checkpoint(architecture, tmp_path)
    on_gpu, on_cpu = (
        load_encoder(tmp_path, architecture, device=device, precision="fp32", pack=False)
        for device in (DEVICE, torch.device("cpu"))
    )
    if not on_gpu.capabilities.unpadded:
        pytest.skip("its layers read padded rows")
    on_gpu._unpadded_layers.varlen = True
    for kind in (None, "zero", "uniform", "scale", "mean"):
        for question in QUESTIONS if kind is None else ["FillMask", "hidden states", "RankHeads"]:
            if question not in offered(on_cpu):
                continue
            found, expected = (
                answers(
                    encoder,
                    question,
                    sequences(encoder),
                    lambda row, encoder=encoder, kind=kind: gates(encoder, kind) if kind and row % 2 else None,
                )
                for encoder in (on_gpu, on_cpu)
            )
            assert_same(found, expected)
