"""A student of many an architecture has gradients, and is rounded as its 8-bit model is."""

from pathlib import Path

import pytest
import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.compress import compress
from bertscope_service.distillation.losses import Counts
from bertscope_service.distillation.rows import DistillationTexts, GivenText
from bertscope_service.distillation.settings import DistillationSettings, DistillationWeights, Predicted, StateLoss
from bertscope_service.distillation.training import Training, run
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.fake_int8 import round_as_integers
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.family import FAMILY
from tests.support.tiny import SENTENCES, write_checkpoint

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def read(folder: Path, name: str) -> TorchEncoder:
    return load_encoder(folder, name, device=CPU, precision="fp32", pack=False)


@pytest.mark.parametrize("name", list(FAMILY)[::3])
def test_a_student_of_an_architecture_learns_and_rounds(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / "whole")
    teacher, student = read(folder, name), read(folder, name)
    if not teacher.capabilities.masked_lm:
        pytest.skip("it has no masked-LM head")
    layers = tuple(range(teacher.shape.layers))
    weights = DistillationWeights(1, 2, 1, 1, StateLoss.MSE, 1, layers)
    settings = DistillationSettings(weights, 1, 64, 1e-3, 0, 0.01, 0.3, 1, 0, embeddings=True)
    given = {part: [GivenText(part, (text, None)) for text in SENTENCES[:3]] for part in ("train", "dev", "test")}
    tokenizer = TextTokenizer.load(folder, teacher.shape.max_tokens)
    texts = DistillationTexts.read(given, tokenizer, mask_rate=0.3, predicted=Predicted.MASKED, labels=0, truncate=True, seed=0)
    rows = texts.held_out("dev")
    training = Training(student, teacher, settings)
    counts = Counts(sum(len(row.gold) for row in rows), sum(len(row.gold) for row in rows), sum(map(len, rows)))
    training.accumulate(rows, counts)
    gradients = [one.grad for one in training.parameters.values() if one.grad is not None]
    assert len(gradients) > 4 * len(layers)
    assert all(torch.isfinite(one).all() for one in gradients)
    assert sum(float(one.abs().sum()) for one in gradients) > 0
    source = inspect(folder)
    compress(source, [Int8()], tmp_path / "int8", lambda _: None, source.digest(lambda _: None))
    served, rounded = load_encoder(tmp_path / "int8", name, device=CPU, precision="fp32"), read(folder, name)
    round_as_integers(rounded.architecture.model, rounded.architecture.reads_weights)
    with torch.no_grad():
        exact, expected, found = (run(one, rows, ()).logits for one in (teacher, served, rounded))
    # An input near the middle of two integers may be rounded either way, after sums in another order.
    error = (expected - exact).abs().mean()
    assert (found - expected).abs().mean() < 0.3 * error
