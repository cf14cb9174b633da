"""Defines the questions of the soak, except those of heads over labels, values and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import bertscope
import numpy as np
from bertscope.inference.open_inference_pb2 import ModelInferRequest
from bertscope.inference.open_inference_pb2_grpc import GRPCInferenceServiceStub
from numpy.typing import NDArray

from benchmarks.lib.fillings import fillings
from benchmarks.lib.texts import cloze_texts, texts_of_lengths
from benchmarks.soak.asking import Answer, Ask, Caller, Question, Role
from benchmarks.soak.head_questions import HEADS
from benchmarks.soak.sampled import sampled_questions

TOP_K, MORE = 5, 20
"""The number of requested words, and of additional words known of the true answer; see fillings.agree."""

PAUSE_SECONDS = 0.2
"""The pause of a slow reader, after every text."""

TRUTH_SECONDS = 120.0
"""The longest time of a call to an idle server."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Calls FillMask."""

    texts: Sequence[str]
    options: dict[str, Any] = field(default_factory=dict)

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        found = await caller.client.fill_mask(self.texts, model=model, timeout=seconds, **self.options)
        return Answer(found[0].provenance.weights_digest, filled=fillings(found))


@dataclass(frozen=True, slots=True)
class Attend:
    """Calls ExtractAttention: the maps of all texts, or of the first `most`, with a pause after each."""

    texts: Sequence[str]
    most: int = 0
    pause: float = 0.0

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        maps: list[NDArray[Any]] = []
        digest = ""
        async with aclosing(caller.client.extract_attention(self.texts, model=model, timeout=seconds)) as stream:
            async for text in stream:
                maps.append(text.attention)
                digest = text.provenance.weights_digest
                if len(maps) == self.most:
                    break
                await asyncio.sleep(self.pause)
        return Answer(digest, arrays=maps)


@dataclass(frozen=True, slots=True)
class Inspect:
    """Calls Inspect, of two runs, with pictures of all heads."""

    text: str

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        found = await caller.client.inspect(
            self.text,
            model=model,
            interventions=bertscope.zero(1, [0]),
            compare_untouched=True,
            maps=bertscope.MapView(pixels=8),
            timeout=seconds,
        )
        assert found.distances is not None
        logs = np.array([[one.log_probability for one in mask.predictions] for mask in (*found.masks, *found.untouched_masks)])
        return Answer(found.provenance.weights_digest, arrays=[logs, found.distances.moved, found.maps[0].weights])


async def find_neurons(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls AttributeWords about the neurons of some layers, of which the sums are compared."""
    texts, answer = texts_of_lengths([9, 14], mask=True), bertscope.Answer("paris", "water")
    found = await caller.client.find_neurons(texts, answer, model=model, layers=[0, 1], timeout=seconds)
    return Answer(found[0].provenance.weights_digest, arrays=[np.array(one.layer_sums) for one in found])


@dataclass(frozen=True, slots=True)
class Sweep:
    """Calls SweepHeads over layers: the effects of all, or of the first `most`. Its provenance comes last, so it is not
    checked."""

    texts: Sequence[str]
    most: int = 0

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        sweep = caller.client.sweep_heads(bertscope.Divergence(self.texts), model=model, scope="layers", timeout=seconds)
        effects: list[NDArray[Any]] = []
        async with aclosing(sweep):
            async for effect in sweep:
                effects.append(np.array([metric.difference for metric in effect.metrics.values()]))
                if len(effects) == self.most:
                    break
        return Answer("", arrays=effects)


@dataclass(frozen=True, slots=True)
class SweepSites:
    """Calls SweepSites with noise: the effects of all states, or of the first `most`."""

    texts: Sequence[str]
    most: int = 0

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        noise = bertscope.NoisyWords((7, 12), samples=2)
        target = bertscope.Answer("paris", "water")
        sweep = caller.client.sweep_sites(self.texts, [noise] * len(self.texts), target, model=model, timeout=seconds)
        # On a busy server the texts go in several calls, and an effect is over those of its call.
        effects: dict[tuple[int, int | None], float] = {}
        async with aclosing(sweep):
            async for effect in sweep:
                place = effect.layer, effect.position
                effects[place] = effects.get(place, 0.0) + effect.sum
                if len(effects) == self.most:
                    break
        return Answer("", arrays=[np.array([total]) for total in effects.values()])


@dataclass(frozen=True, slots=True)
class Describe:
    """Calls DescribeAttention or, with interventions, CompareAttention: of the model and of itself under these."""

    texts: Sequence[str]
    interventions: Sequence[bertscope.HeadIntervention] = ()

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        if self.interventions:
            compared = await caller.client.compare_attention(
                self.texts, model=model, interventions=self.interventions, timeout=seconds
            )
            differences = [compared.difference(name) for name in compared.differences]
            arrays = [compared.cosine.mean(), compared.divergence.mean(), *differences]
            return Answer(compared.provenance.weights_digest, arrays=arrays)
        found = await caller.client.describe_attention(self.texts, model=model, timeout=seconds)
        return Answer(found.provenance.weights_digest, arrays=[found.mean(name) for name in found.statistics])


async def rank(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls RankHeads."""
    objective = bertscope.MaskedLmLoss(texts_of_lengths([12, 16], mask=False))
    found = await caller.client.rank_heads(objective, model=model, timeout=seconds)
    return Answer(found.provenance.weights_digest, arrays=[found.importance, np.array(found.loss)])


async def infer(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls ModelInfer of the Open Inference Protocol, which has no provenance: token ids in, hidden states out."""
    ids = np.array([[101, *range(2000, 2010), 102]])
    request = ModelInferRequest(model_name=model, raw_input_contents=[ids.astype("<i8").tobytes()])
    request.inputs.add(name="input_ids", datatype="INT64", shape=ids.shape)
    request.outputs.add(name="last_hidden_state")
    reply = await GRPCInferenceServiceStub(caller.channel).ModelInfer(request, timeout=seconds)
    return Answer("", arrays=[np.frombuffer(content, dtype="<f4") for content in reply.raw_output_contents])


def questions() -> list[Question]:
    """Returns all questions; a question's request never changes, so that the true answer is found once."""
    texts, words = cloze_texts(), ["france", "paris", "water", "unplayable"]
    masked = texts_of_lengths([9, 14], mask=True)
    maps, long = texts_of_lengths([12, 20, 9, 16], mask=False), texts_of_lengths([128] * 8, mask=False)
    return [
        *(_fill("FillMask, one text", [text], Role.EMBEDDED) for text in texts[::60]),
        *(_fill("FillMask, one text, guest", [text], Role.GUEST, 0.5) for text in texts[::60]),
        _fill("FillMask, 16 texts", texts[:16], Role.EMBEDDED),
        _fill("FillMask, 16 texts, guest", texts[:16], Role.GUEST),
        _fill("FillMask, interventions", texts[20:24], Role.EMBEDDED, interventions=_interventions()),
        _fill("FillMask, sites", texts[24:28], Role.EMBEDDED, interventions=_site_changes()),
        _plain("FillMask, candidates", Role.EMBEDDED, Fill(texts[30:34], {"candidates": words})),
        _plain("ExtractAttention", Role.EMBEDDED, Attend(maps)),
        _plain("ExtractAttention, guest", Role.GUEST, Attend(maps)),
        _stream("ExtractAttention, left half-way", partial(Attend, long), len(long) // 2),
        Question("ExtractAttention, read slowly", Role.EMBEDDED, Attend(long, pause=PAUSE_SECONDS), Attend(long), 0.5),
        _plain("DescribeAttention", Role.EMBEDDED, Describe(maps)),
        _plain("CompareAttention", Role.EMBEDDED, Describe(maps, _interventions())),
        _plain("Inspect", Role.EMBEDDED, Inspect(texts[0])),
        _plain("SweepHeads", Role.EMBEDDED, Sweep(texts[:4]), 0.5),
        _stream("SweepHeads, left half-way", partial(Sweep, texts[:4]), 2),
        _plain("SweepSites", Role.EMBEDDED, SweepSites(masked), 0.5),
        _stream("SweepSites, left half-way", partial(SweepSites, masked), 8),
        _plain("RankHeads", Role.EMBEDDED, rank, 0.5),
        *(_plain(name, role, ask) for name, (role, ask) in HEADS.items()),
        _plain("ModelInfer", Role.EMBEDDED, infer),
        *(_fill("FillMask, one text, ONNX", [text], Role.ONNX) for text in texts[::60]),
        _fill("FillMask, 16 texts, ONNX", texts[:16], Role.ONNX),
        _fill("FillMask, interventions, ONNX", texts[20:24], Role.ONNX, interventions=_interventions()),
        _fill("FillMask, sites, ONNX", texts[24:28], Role.ONNX, interventions=_site_changes()),
        _plain("ExtractAttention, ONNX", Role.ONNX, Attend(maps)),
        _plain("DescribeAttention, ONNX", Role.ONNX, Describe(maps)),
        _plain("CompareAttention, ONNX", Role.ONNX, Describe(maps, _interventions())),
        _plain("Inspect, ONNX", Role.ONNX, Inspect(texts[0])),
        _plain("SweepHeads, ONNX", Role.ONNX, Sweep(texts[:4]), 0.5),
        _plain("SweepSites, ONNX", Role.ONNX, SweepSites(masked), 0.5),
        _plain("RankHeads, ONNX", Role.ONNX, rank),
        _plain("ModelInfer, ONNX", Role.ONNX, infer),
        _plain("AttributeWords, neurons", Role.EMBEDDED, find_neurons),
        *sampled_questions(),
    ]


def _interventions() -> list[bertscope.HeadIntervention]:
    return [bertscope.zero(layer=0, heads=[0, 2]), bertscope.uniform(layer=1)]


def _site_changes() -> list[bertscope.SiteIntervention]:
    source = "Paris is the capital of [MASK]."
    return [
        bertscope.patch(2, source, positions="masks"),
        bertscope.scale_site(1, range(64), site="neurons", factor=2, positions="masks"),
        bertscope.block_attention(1, [0], queries="masks", keys="first"),
    ]


def _fill(kind: str, texts: Sequence[str], role: Role, weight: float = 1.0, **options: Any) -> Question:
    ask, truth = (Fill(texts, options | {"top_k": count}) for count in (TOP_K, TOP_K + MORE))
    return Question(kind, role, ask, truth, weight)


def _plain(kind: str, role: Role, ask: Ask, weight: float = 1.0) -> Question:
    return Question(kind, role, ask, ask, weight)


def _stream(kind: str, read: Callable[[int], Ask], most: int) -> Question:
    return Question(kind, Role.EMBEDDED, read(most), read(0), 0.5)


async def true_answers(
    asked: Iterable[Question], caller: Caller, models: dict[Role, list[str]]
) -> dict[tuple[Question, str], Answer]:
    """Returns the answers of an idle server, one call at a time, by question and digest of the weights.

    `models` are the names that may answer a role; a guest has several. If answers have no digest, there is one model.
    """
    found = {}
    for question in asked:
        for model in models[question.role]:
            answer = await question.truth(caller, model, TRUTH_SECONDS)
            found[question, answer.digest] = answer
    return found
