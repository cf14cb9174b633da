"""On a pretended GPU: how much each question launches for a layer and a row, and copies, which is stored; and it never waits.

A number that rises is looked at before it is stored.
"""

from collections.abc import Callable
from typing import Any

import pytest
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu.recording import Seen, watching
from tests.support.questions_of_rows import answers, offered, sequences
from tests.support.tiny import write_checkpoint

pytestmark = pytest.mark.usefixtures("pretended")

FEW_LAYERS, MORE_LAYERS, FEW_ROWS, MORE_ROWS = 2, 4, 4, 8


def cost(encoder: TorchEncoder, question: str, rows: int) -> Seen:
    """Returns what a batch of so many rows did; the second one, because some of a length is kept for the next."""
    batch = sequences(encoder, rows)
    answers(encoder, question, batch)
    with watching() as seen:
        answers(encoder, question, batch)
    assert not seen.waits, f"{question}: the host waits for the device:\n{seen}"
    assert {what for what, _ in seen.to_device} <= {"pinned"}, f"{question}: not all copies go on by themselves:\n{seen}"
    assert {what for what, _ in seen.to_host} <= {"non-blocking"}, f"{question}: not all copies go on by themselves:\n{seen}"
    return seen


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_costs_of_a_batch(architecture: str, tmp_path_factory: pytest.TempPathFactory, stored: Callable[..., None]) -> None:
    def made(layers: int) -> TorchEncoder:
        kinds = {"layer_types": ["full_attention", "sliding_attention"] * (layers // 2)} if architecture == "modernbert" else {}
        folder = write_checkpoint(
            architecture, tmp_path_factory.mktemp(architecture), settings={"num_hidden_layers": layers, **kinds}
        )
        return load_encoder(folder, architecture, device=DEVICE, precision="fp32", pack=False)

    few, more = made(FEW_LAYERS), made(MORE_LAYERS)
    costs: dict[str, dict[str, Any]] = {}
    for question in offered(few):
        base, deep, wide = cost(few, question, FEW_ROWS), cost(more, question, FEW_ROWS), cost(few, question, MORE_ROWS)
        launches = base.launches.total()
        costs[question] = {
            "launches a layer": (deep.launches.total() - launches) / (MORE_LAYERS - FEW_LAYERS),
            "launches a row": (wide.launches.total() - launches) / (MORE_ROWS - FEW_ROWS),
            "copies to the device": [seen.to_device.total() for seen in (base, deep, wide)],
            "copies to the host": [seen.to_host.total() for seen in (base, deep, wide)],
        }
    stored(costs=costs)
