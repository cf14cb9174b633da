"""How runtime "auto" decides, and how it remembers: with times that are made up, and files of every bad kind."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bertscope_service.benchmark.studies import faster
from bertscope_service.benchmark.timings import Ratio
from bertscope_service.models import runtime_choice
from bertscope_service.models.runtime_choice import THRESHOLD, ChoiceKey, RuntimeChoice, RuntimeChoices, RuntimeTimes, decide
from bertscope_service.models.runtime_timing import CLEAR_ROUNDS, MAX_ROUNDS, MIN_ROUNDS, interval_of_median, settled, speedup

KEY = ChoiceKey("sha256:1", "2", "cpu", "fp32", 1, "all")
TIMES = (RuntimeTimes("torch", 0.02, 0.1), RuntimeTimes("onnx", 0.01, 0.09))
CHOICE = RuntimeChoice("onnx", "onnx", THRESHOLD, TIMES, 0.7, 0.6, 0.9, 8, 1_700_000_000.0)
OTHER = RuntimeChoice("torch", "onnx", THRESHOLD, TIMES, 1.4, 1.3, 1.5, 8, 1_800_000_000.0)


def test_too_few_values_have_no_interval() -> None:
    with pytest.raises(ValueError, match="too few"):
        interval_of_median([1.0] * (MIN_ROUNDS - 1))


def test_the_preferred_library_serves_unless_the_other_is_clearly_faster() -> None:
    assert decide("onnx", 1.05) == "onnx"
    assert decide("onnx", THRESHOLD) == "onnx"
    assert decide("onnx", THRESHOLD + 0.01) == "torch"
    assert decide("torch", THRESHOLD + 0.01) == "onnx"


@pytest.mark.parametrize(
    ("low", "high", "preferred", "taken"),
    [
        (0.8, 0.95, "onnx", "onnx"),
        (0.8, 0.9, "onnx", "torch"),
        (1.15, 1.3, "torch", "onnx"),
        (0.0, float("inf"), "onnx", "onnx"),
    ],
)
def test_studies_prefer_the_same_library(low: float, high: float, preferred: str, taken: str) -> None:
    """By how many times as fast as torch onnx is."""
    assert faster(Ratio(1.0, low, high), preferred) == taken


def test_rounds_go_on_until_they_are_clear_or_enough() -> None:
    assert not settled([0.5] * (CLEAR_ROUNDS - 1), 0.0)
    assert settled([0.5] * CLEAR_ROUNDS, 0.0)
    assert settled([2.0] * CLEAR_ROUNDS, 0.0)
    unclear = [0.5, *[2.0] * (MAX_ROUNDS - 1)]
    assert not settled(unclear[:-1], 0.0)
    assert settled(unclear, 0.0)
    assert settled(unclear[:MIN_ROUNDS], 1e9)
    assert not settled(unclear[: MIN_ROUNDS - 1], 1e9)


def test_speedup_is_over_both_loads() -> None:
    one = {"torch": (0.1, 0.8), "onnx": (0.2, 0.4)}
    assert speedup(one, "onnx") == pytest.approx(1.0)
    assert speedup(one | {"torch": (0.05, 0.8)}, "onnx") == pytest.approx(2**0.5)


def test_a_choice_outlives_the_process(tmp_path: Path) -> None:
    assert RuntimeChoices(tmp_path).recall(KEY) is None
    assert RuntimeChoices(tmp_path).remember(KEY, CHOICE) == CHOICE
    assert RuntimeChoices(tmp_path).recall(KEY) == replace(CHOICE, remembered=True)
    assert not list(tmp_path.glob("runtimes/.*"))


def test_the_first_choice_of_servers_with_one_cache_is_kept(tmp_path: Path) -> None:
    first, second = RuntimeChoices(tmp_path), RuntimeChoices(tmp_path)
    first.remember(KEY, CHOICE)
    assert second.remember(KEY, OTHER) == replace(CHOICE, remembered=True)
    assert first.remember(KEY, OTHER) == replace(CHOICE, remembered=True)
    second.forget(KEY)
    assert RuntimeChoices(tmp_path).recall(KEY) is None


@pytest.mark.parametrize("change", [{"digest": "sha256:3"}, {"config": "3"}, {"threads": 2}, {"optimisation": "none"}], ids=str)
def test_a_choice_holds_for_what_it_was_measured_with(tmp_path: Path, change: dict[str, Any]) -> None:
    choices = RuntimeChoices(tmp_path)
    choices.remember(KEY, CHOICE)
    assert choices.recall(replace(KEY, **change)) is None


@pytest.mark.parametrize("changed", ["machine", "version"])
def test_a_choice_holds_for_its_machine_and_versions(tmp_path: Path, changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RuntimeChoices(tmp_path).remember(KEY, CHOICE)
    monkeypatch.setattr(runtime_choice, changed, lambda _: "another")
    assert RuntimeChoices(tmp_path).recall(KEY) is None


WRONG = [
    {"format": 0},
    {"runtime": "torch"},
    {"preferred": 5},
    {"low": "fast"},
    {"low": float("nan")},
    {"high": float("inf")},
    {"speedup": -1},
    {"rounds": 0},
    {"times": []},
    {"times": None},
    {"times": [{"runtime": "torch", "text_seconds": 1, "batch_seconds": 1}]},
    {"measured_time": "yesterday"},
]


@pytest.mark.parametrize("content", [*WRONG, b"\xff\xfe", b"{", b"[" * 100_000, b"null"], ids=lambda content: str(content)[:30])
def test_a_file_with_anything_else_in_it_is_measured_anew(tmp_path: Path, content: dict[str, object] | bytes) -> None:
    RuntimeChoices(tmp_path).remember(KEY, CHOICE)
    (file,) = tmp_path.glob("runtimes/*.json")
    if isinstance(content, dict):
        content = json.dumps(json.loads(file.read_text()) | content).encode()
    file.write_bytes(content)
    choices = RuntimeChoices(tmp_path)
    assert choices.recall(KEY) is None
    assert choices.remember(KEY, OTHER) == OTHER
    assert RuntimeChoices(tmp_path).recall(KEY) == replace(OTHER, remembered=True)


def test_without_a_folder_it_remembers_as_long_as_it_lives(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("not a folder")
    for cache in (Path(os.devnull), taken, Path("~nobody-has-this-name/cache")):
        choices = RuntimeChoices(cache)
        assert choices.recall(KEY) is None
        assert choices.remember(KEY, CHOICE) == CHOICE
        assert choices.recall(KEY) == replace(CHOICE, remembered=True)
        choices.forget(KEY)
        assert choices.recall(KEY) is None


def test_choices_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_choice, "MAX_CHOICES", 3)
    choices = RuntimeChoices(tmp_path)
    for number in range(5):
        key = replace(KEY, digest=str(number))
        choices.remember(key, CHOICE)
        file = tmp_path / "runtimes" / f"{key.name}.json"
        os.utime(file, (number, number))
    assert len(list(tmp_path.glob("runtimes/*"))) == 3
    assert RuntimeChoices(tmp_path).recall(replace(KEY, digest="0")) is None
    assert RuntimeChoices(tmp_path).recall(replace(KEY, digest="4")) is not None
