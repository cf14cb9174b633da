"""Configs with odd values: each loads and answers, or is refused with a typed error, in little memory."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.errors import FailedPrecondition, InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.models.loading import read_model
from bertscope_service.models.runtimes import RuntimeSettings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.family import FAMILY
from tests.support.memory import peak
from tests.support.pruned import run

PEAK_BYTES = 300 * 1024 * 1024
"""More than reading a tiny model takes, and less than most of the numbers below ask for."""

NUMBERS = [-1, 0, 1, 2, 3, 4, 5, 31, 32, 33, 64, 263, 264, 512, 5000, 65_536, 10**9, 2**31, 2**63, -(2**63), 10**400]
FLOATS = [0.0, -0.0, 1e-12, 0.5, 1.0, 1.5, 1e30, float("nan"), float("inf"), float("-inf")]
TEXTS = ["", "x", "gelu", "relu", "float16", "4", "NaN", "\0", "x" * 10_000]
VALUES = st.sampled_from([None, True, False, *NUMBERS, *FLOATS, *TEXTS]) | st.recursive(
    st.sampled_from([*NUMBERS, *TEXTS]),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["0", "1", "x", "kind", "bits", "__float__"]), inner)
    ),
    max_leaves=6,
)
OURS = ["bertscope_pruned_heads", "bertscope_kept_shares", "bertscope_quantization", "bertscope_x"]
OTHERS = [
    "num_labels",
    "pruned_heads",
    "per_layer_config",
    "quantization_config",
    "auto_map",
    "attribute_map",
    "to_dict",
    "rope_scaling",
]
OTHERS += ["layer_types", "rope_parameters", "sliding_window", "true_hidden_size", "torch_dtype", "attn_implementation", "x"]
OTHERS += [
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "is_decoder",
    "position_embedding_type",
    "global_attn_every_n_layers",
]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", list(FAMILY)[::4])
def test_an_odd_config_loads_or_is_refused(checkpoint: Callable[[str], Path], architecture: str) -> None:
    folder = checkpoint(architecture)
    good = json.loads((folder / "config.json").read_text())
    keys = st.sampled_from([*good, *OURS, *OTHERS])
    outcomes: set[type] = set()

    @settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(keys, VALUES, min_size=1, max_size=2))
    def check(changes: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as place:
            lying = Path(shutil.copytree(folder, Path(place) / "lying"))
            (lying / "config.json").write_text(json.dumps(good | changes))
            peak()
            try:
                loaded = read_model(
                    LoadSpec("m", str(lying), "cpu", "fp32"), lambda _: None, runtimes=RuntimeSettings(lying, threads=1)
                )
            except (FailedPrecondition, InvalidArgument, Unsupported) as error:
                assert "\n" not in error.message
                outcomes.add(type(error))
            else:
                hidden = run(loaded.encoder, [loaded.tokenizer.encode("The cat sat.").sequence])[0][-1]
                assert torch.isfinite(hidden).all()
                outcomes.add(type(loaded))
            assert peak() - resting < PEAK_BYTES

    peak()
    resting = peak()
    check()
    assert len(outcomes) > 1, "some are refused, some load"
