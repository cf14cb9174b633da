"""A sweep or a distillation whose server is killed goes on on another server, and ends as one that nobody disturbed."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertscope
import pytest
from safetensors.numpy import load_file

from tests.support.disturbance import ALONE
from tests.support.patience import granted
from tests.support.process import Process
from tests.support.tiny import SENTENCES

pytestmark = pytest.mark.slow

CALL_SECONDS = granted(90.0)
TEXTS = [f"The cat sat on the old mat in {year}." for year in range(1900, 1908)]
OBJECTIVE = bertscope.MaskedLmLoss(TEXTS, seed=3)
HEADS = [(layer, head) for layer in range(2) for head in range(4)]
SETS = [
    {layer: [head for other, head in chosen if other == layer] for layer in {layer for layer, _ in chosen}}
    for size in (1, 2, 3, 4)
    for chosen in itertools.combinations(HEADS, size)
]


def sweep(client: bertscope.Client, **more: object) -> bertscope.HeadSweep:
    arguments = {"sets": SETS, "seed": 5, "confidence": 0.9, "resamples": 200, "timeout": CALL_SECONDS, **more}
    return client.sweep_heads(OBJECTIVE, **arguments)  # type: ignore[arg-type]


def test_a_killed_server_costs_a_sweep_what_it_had_not_sent(
    steady: Process, launch: Callable[..., Process], tiny: Path, tmp_path: Path
) -> None:
    with bertscope.Client(steady.target) as client:
        whole = sweep(client).table()
    victim = launch("--model", f"another-name={tiny}", *ALONE)
    victim.wait_until_serving()
    with bertscope.Client(victim.target) as client, sweep(client, model="another-name") as running:
        for _ in range(7):
            next(running)
        victim.popen.kill()
        with pytest.raises(bertscope.Unavailable) as caught:
            running.table()
        cut = running.partial()
    assert 7 <= cut.count < len(SETS)
    assert not cut.complete and cut.interrupted == str(caught.value)
    assert cut.effects == whole.effects[: cut.count]
    cut.save(tmp_path / "cut.json")
    with bertscope.Client(steady.target) as client:
        resumed = sweep(client, start_from=tmp_path / "cut.json").table()
    assert resumed.effects == whole.effects  # Bit for bit, intervals too.
    assert (resumed.complete, resumed.resumed, resumed.start.baseline) == (True, cut.count, whole.start.baseline)
    assert (resumed.summary.helped, resumed.summary.hurt) == (whole.summary.helped, whole.summary.hurt)
    assert resumed.summary.layer_passes < whole.summary.layer_passes


def distil(client: bertscope.Client, folder: Path, **more: Any) -> bertscope.DistilledModel:
    settings = {"steps": bertscope.keep_layers([0, 2]), "epochs": 30, "evaluations": 30, "batch_tokens": 40, "seed": 3}
    parts: dict[str, Any] = {"dev": list(SENTENCES), "test": list(SENTENCES), "timeout": granted(90.0)}
    return client.distill_model("small", list(SENTENCES), folder=str(folder), **settings, **parts, **more)  # type: ignore[arg-type]


def test_a_killed_server_costs_a_distillation_what_it_had_not_kept(
    launch: Callable[..., Process], tiny: Path, tmp_path: Path
) -> None:
    flags = ("--model", f"tiny={tiny}")
    steady = launch(*flags)
    steady.wait_until_serving()
    with bertscope.Client(steady.target) as client:
        whole = distil(client, tmp_path / "whole")
        client.unload_model("small")
    victim = launch(*flags)
    victim.wait_until_serving()

    def kill(progress: bertscope.DistillationProgress) -> None:
        if progress.done >= 5 * len(SENTENCES):
            victim.popen.kill()

    with bertscope.Client(victim.target) as client, pytest.raises(bertscope.BertscopeError):
        distil(client, tmp_path / "cut", on_progress=kill)
    assert (tmp_path / "cut.training" / "training.safetensors").is_file()
    assert not (tmp_path / "cut").exists()
    seen: list[bertscope.DistillationProgress] = []
    with bertscope.Client(steady.target) as client:
        resumed = distil(client, tmp_path / "cut", on_progress=seen.append)
    first = next(one for one in seen if one.stage == "training")
    assert resumed.resumed and first.done >= 4 * len(SENTENCES)
    assert resumed.records() == whole.records()
    kept, expected = (load_file(tmp_path / name / "model.safetensors") for name in ("cut", "whole"))
    assert all((kept[name] == values).all() for name, values in expected.items())
    assert not (tmp_path / "cut.training").exists()
