"""A distillation whose server is killed goes on from its folder on another server, and ends as one that nobody disturbed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertscope
import pytest
from safetensors.numpy import load_file

from tests.support.patience import granted
from tests.support.process import Process
from tests.support.tiny import SENTENCES

pytestmark = pytest.mark.slow

TEXTS = list(SENTENCES)


def distil(client: bertscope.Client, folder: Path, **more: Any) -> bertscope.DistilledModel:
    settings = {"steps": bertscope.keep_layers([0, 2]), "epochs": 30, "evaluations": 30, "batch_tokens": 40, "seed": 3}
    parts: dict[str, Any] = {"dev": TEXTS, "test": TEXTS, "timeout": granted(90.0)}
    return client.distill_model("small", TEXTS, folder=str(folder), **settings, **parts, **more)  # type: ignore[arg-type]


def test_a_killed_server_costs_what_it_had_not_kept(launch: Callable[..., Process], tiny: Path, tmp_path: Path) -> None:
    flags = ("--model", f"tiny={tiny}")
    steady = launch(*flags)
    steady.wait_until_serving()
    with bertscope.Client(steady.target) as client:
        whole = distil(client, tmp_path / "whole")
        client.unload_model("small")
    victim = launch(*flags)
    victim.wait_until_serving()

    def kill(progress: bertscope.DistillationProgress) -> None:
        if progress.done >= 5 * len(TEXTS):
            victim.popen.kill()

    with bertscope.Client(victim.target) as client, pytest.raises(bertscope.BertscopeError):
        distil(client, tmp_path / "cut", on_progress=kill)
    assert (tmp_path / "cut.training" / "training.safetensors").is_file()
    assert not (tmp_path / "cut").exists()
    seen: list[bertscope.DistillationProgress] = []
    with bertscope.Client(steady.target) as client:
        resumed = distil(client, tmp_path / "cut", on_progress=seen.append)
    first = next(one for one in seen if one.stage == "training")
    assert resumed.resumed and first.done >= 4 * len(TEXTS)
    assert resumed.rows() == whole.rows()
    kept, expected = (load_file(tmp_path / name / "model.safetensors") for name in ("cut", "whole"))
    assert all((kept[name] == values).all() for name, values in expected.items())
    assert not (tmp_path / "cut.training").exists()
