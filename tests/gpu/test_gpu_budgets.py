"""On a pretended GPU: how much each question may launch for a layer and a row, copy and wait. A failure names the lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu.recording import Places, Seen, watching
from tests.support.questions_of_rows import QUESTIONS, answers, offered, sequences
from tests.support.tiny import write_checkpoint

pytestmark = pytest.mark.usefixtures("pretended")

FEW_LAYERS, MORE_LAYERS, FEW_ROWS, MORE_ROWS = 2, 4, 4, 8


@dataclass(frozen=True)
class Budget:
    """The most that a batch of a question may do: launches for each layer of BERT, and for each row, of any model; copies to
    the device, one of the model's inputs and one of the question's, and one to the host. It never waits."""

    layer: int
    row: float = 0
    to_device: int = 2
    to_host: int = 1
    to_device_row: float = 0


@dataclass(frozen=True)
class Encoders:
    """An architecture with few and with more layers."""

    name: str
    few: TorchEncoder
    more: TorchEncoder


BUDGETS = {
    "FillMask": Budget(12),
    "FillMask candidates": Budget(12),
    "FillMask among": Budget(12),
    "FillMask logits": Budget(12),
    "ScoreTexts": Budget(12),
    "RankHeads": Budget(25),
    "SweepHeads": Budget(0, to_device=1, to_host=0),
    "logits of all tokens": Budget(12),
    "ReadLens": Budget(12),
    "AttributeWords": Budget(12),
    "AttributeWords gradients": Budget(24, to_device=4),
    "AttributeWords zeros": Budget(24, to_device=4),
    "AttributeWords frozen": Budget(63, to_device=4),
    "AttributeLogits": Budget(59),
    "Inspect": Budget(12, row=12, to_device_row=1),
    "hidden states": Budget(12, to_device=1),
    "means of contexts": Budget(14, to_device=1),
    "SweepSites": Budget(0, to_device=1),
    "means of sites": Budget(0, to_device=1),
    "ExtractAttention": Budget(12),
    "ExtractAttention words": Budget(12),
    "ExtractAttention rollout": Budget(27),
    "ExtractAttention layer_output_norms": Budget(12),
    "ExtractAttention alti": Budget(59),
    "ExtractAttention globenc": Budget(76),
    "DescribeAttention": Budget(44),
    "ScoreRelations": Budget(69),
    "features": Budget(25),
    "DescribeGeometry": Budget(0, to_device=3),
    "FindContexts": Budget(0, to_device=8),
    "products of words": Budget(0, to_device=3),
    "vectors of spans": Budget(12),
    "ExtractHiddenStates": Budget(12, to_device=1),
    "ExtractHiddenStates words": Budget(12),
}
"""What each question costs. Numbers may fall, and are lowered then; one that rises is looked at first."""

MORE_A_LAYER = {"bert": 0, "modernbert": 9}
"""Launches of a layer beyond BERT's: the rotation of queries and keys, not its sines and cosines."""


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def encoders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoders:
    """The same architecture with few and with more layers."""

    def made(layers: int) -> TorchEncoder:
        folder: Path = tmp_path_factory.mktemp(request.param)
        kinds = (
            {"layer_types": ["full_attention", "sliding_attention"] * (layers // 2)} if request.param == "modernbert" else {}
        )
        write_checkpoint(request.param, folder, settings={"num_hidden_layers": layers, **kinds})
        return load_encoder(folder, request.param, device=DEVICE, precision="fp32", pack=False)

    return Encoders(request.param, made(FEW_LAYERS), made(MORE_LAYERS))


def cost(encoder: TorchEncoder, question: str, rows: int) -> Seen:
    """Returns what a batch of so many rows did; the second one, because some of a length is kept for the next."""
    batch = sequences(encoder, rows)
    answers(encoder, question, batch)
    with watching() as seen:
        answers(encoder, question, batch)
    return seen


def growth(before: Places, after: Places) -> str:
    """Returns the places that count more, most first."""
    return "\n".join(f"+{count} {what} at {where}" for (what, where), count in (Counter(after) - Counter(before)).most_common())


@pytest.mark.parametrize("question", QUESTIONS)
def test_costs_are_within_the_budget(encoders: Encoders, question: str) -> None:
    few, more = encoders.few, encoders.more
    if question not in offered(few):
        pytest.skip("the architecture refuses this question")
    budget = BUDGETS[question]
    base, deep, wide = cost(few, question, FEW_ROWS), cost(more, question, FEW_ROWS), cost(few, question, MORE_ROWS)
    for seen in (base, deep, wide):
        assert not seen.waits, f"the host waits for the device:\n{seen}"
    rows = MORE_ROWS - FEW_ROWS
    per_row = (wide.launches.total() - base.launches.total()) / rows
    assert per_row <= budget.row, f"{per_row} launches a row:\n{growth(base.launches, wide.launches)}"
    if encoders.name in MORE_A_LAYER:
        per_layer = (deep.launches.total() - base.launches.total()) / (MORE_LAYERS - FEW_LAYERS)
        assert per_layer <= budget.layer + MORE_A_LAYER[encoders.name], (
            f"{per_layer} launches a layer:\n{growth(base.launches, deep.launches)}"
        )
    for seen, size in ((base, FEW_ROWS), (deep, FEW_ROWS), (wide, MORE_ROWS)):
        assert seen.to_device.total() <= budget.to_device + size * budget.to_device_row, str(seen)
        assert seen.to_host.total() <= budget.to_host, str(seen)
        assert {what for what, _ in seen.to_device} <= {"pinned"}, f"not all copies go on by themselves:\n{seen}"
        assert {what for what, _ in seen.to_host} <= {"non-blocking"}, f"not all copies go on by themselves:\n{seen}"
