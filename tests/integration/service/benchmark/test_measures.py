"""What benchmarks measure of encoders: sizes, memory, and items that all models can answer."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.analyses.intervals import IntervalMethod
from bertscope_service.analyses.metrics import Bootstrap, Metric
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery, build_objective
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsQuery, Prompt
from bertscope_service.benchmark import losses as benchmark_losses
from bertscope_service.benchmark.inputs import Measurement, Subject, make_inputs
from bertscope_service.benchmark.losses import build_objectives
from bertscope_service.benchmark.measure import Measured, measure
from bertscope_service.benchmark.timings import Ratio
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits
from bertscope_service.errors import InvalidArgument, Overloaded
from bertscope_service.models import timed_runs as benchmark_runs
from bertscope_service.models import working_memory as memory
from bertscope_service.observability.metrics import Metrics

from tests.support.hosted import Hosted

CPU = torch.device("cpu")
BRIEF = Measurement(lengths=(4,), batch_sizes=(1, 4, 8), min_runs=3, min_seconds=0.0)
MEBIBYTE = 1 << 20


@pytest.fixture
def bert(checkpoint: Callable[[str], Path]) -> Hosted:
    return Hosted("bert", checkpoint("bert"))


async def measured(*models: Subject, measurement: Measurement = BRIEF) -> Measured:
    engine = Engine(lambda _: Limits(1024, 100_000, threads=1), Metrics())
    try:
        return await measure(models, measurement, engine, lambda *_: None)
    finally:
        await engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert", "albert"])
def test_weights_are_counted_once_wherever_they_are(architecture: str, checkpoint: Callable[[str], Path]) -> None:
    """Packing copies a weight that the embeddings need too: then it takes memory twice, and is one parameter."""
    hosted = Hosted(architecture, checkpoint(architecture))
    plain, packed = hosted.load(pack=False), hosted.load(pack=True)
    model = plain.architecture.model
    buffers = sum(buffer.nbytes for buffer in model.buffers())
    assert plain.resident_bytes == 4 * plain.shape.parameters + buffers
    assert plain.nonzero_parameters() == packed.nonzero_parameters() == plain.shape.parameters
    tied = model.get_input_embeddings().weight.numel()
    assert packed.resident_bytes in (plain.resident_bytes, plain.resident_bytes + 4 * tied)
    assert hosted.load(pack=True, precision="bf16").resident_bytes < 0.6 * packed.resident_bytes
    with torch.no_grad():
        model.get_input_embeddings().weight[:10].zero_()
    assert plain.nonzero_parameters() == plain.shape.parameters - 10 * model.get_input_embeddings().weight.shape[1]


@pytest.mark.asyncio
async def test_a_batch_size_that_does_not_fit_ends_the_search(bert: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0

    def run(encoder: TorchEncoder, batch: list[TokenSequence], original: Callable[..., None] = benchmark_runs.run) -> None:
        nonlocal largest
        largest = max(largest, len(batch))
        if len(batch) >= limit:
            raise torch.OutOfMemoryError("no room")
        original(encoder, batch)

    monkeypatch.setattr(benchmark_runs, "run", run)
    limit = 8
    (model,) = (await measured(Subject(bert.encoder))).models
    assert largest == 8
    assert model.speeds[0].best_batch in (1, 4)
    limit = 1
    with pytest.raises(Overloaded) as caught:
        await measured(Subject(bert.encoder))
    assert caught.value.reason == "DEVICE_MEMORY"


@pytest.mark.asyncio
async def test_texts_need_a_tokenizer_and_lengths_do_not(bert: Hosted) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await measured(Subject(bert.encoder), measurement=Measurement(lengths=(), texts=("The cat sat.",)))
    assert caught.value.reason == "NO_TOKENIZER"
    models = [Subject(bert.encoder, TextTokenizer.load(bert.folder, 64)), Subject(bert.load(pack=False))]
    (inputs,) = make_inputs(models, BRIEF)
    assert inputs.sequences[0] == inputs.sequences[1]
    ids = {token for sequence in inputs.sequences[0] for token in sequence.ids}
    assert len(ids) > 5
    assert not ids & {0, 1, 2, 3, 4}, "special tokens"
    assert all(len(sequence) == 4 for sequence in inputs.sequences[0])


@pytest.mark.parametrize("way", ["kernel", "samples"])
def test_working_memory_is_the_peak_and_not_what_is_left(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "samples":
        monkeypatch.setattr(memory, "_reset_peak", lambda: False)
        monkeypatch.setattr(memory, "SAMPLE_SECONDS", 0.0001)

    def work() -> None:
        for _ in range(8):
            torch.zeros(32 * MEBIBYTE, dtype=torch.uint8).add_(1)

    found = memory.working_bytes(CPU, work)
    # All that was ever taken would be 256 MiB. Other threads of the tests' process take some of the rest.
    assert (24 if way == "kernel" else 4) * MEBIBYTE <= found <= 160 * MEBIBYTE
    assert memory.working_bytes(CPU, lambda: None) < 4 * MEBIBYTE


def test_rounding_is_no_difference() -> None:
    """Between a model and its copy, whose batches had other shapes."""
    losses = np.random.default_rng(0).random(50) + 0.5
    retained = benchmark_losses._retained(Metric.LOSS, losses * (1 + 1e-6), losses, Bootstrap())
    assert retained == Ratio(1.0, 1.0, 1.0, IntervalMethod.STUDENTIZED_BOOTSTRAP)
    less = losses * np.random.default_rng(1).normal(0.99, 0.001, 50)
    lower = benchmark_losses._retained(Metric.LOSS, less, losses, Bootstrap())
    assert lower is not None and lower.low > 1


def test_prompts_that_one_model_would_skip_are_left_out_for_all(bert: Hosted, checkpoint: Callable[[str], Path]) -> None:
    tokenizers = [TextTokenizer.load(folder, 64) for folder in (bert.folder, checkpoint("roberta"))]
    words = sorted(word for word in tokenizers[0].backend.get_vocab() if word.isalpha())
    prompts = tuple(Prompt("The [MASK] sat.", (word,)) for word in [*words, "unplayably"])
    query = ClozePromptsQuery(prompts, skip_multi_piece=True, truncate=False)

    def build(tokenizer: TextTokenizer, given: ObjectiveQuery) -> Objective:
        return build_objective(given, tokenizer, bert.encoder, "models/x")

    alone = [build(tokenizer, query) for tokenizer in tokenizers]
    both = build_objectives(query, [partial(build, tokenizer) for tokenizer in tokenizers])
    kept = [set(one.kept) for one in alone]  # type: ignore[attr-defined]
    assert 0 < len(kept[0] & kept[1]) < len(kept[0]) < len(prompts)
    assert [one.items for one in both] == [len(kept[0] & kept[1])] * 2
