"""Defines the questions of the soak, except those of heads over labels, values and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import bertscope
import numpy as np
from bertscope.inference.open_inference_pb2 import ModelInferRequest
from bertscope.inference.open_inference_pb2_grpc import GRPCInferenceServiceStub
from bertscope.v1 import attention_relations_pb2 as relations
from bertscope.v1 import cloze_facts_pb2 as facts
from bertscope.v1 import cloze_scores_pb2 as scores
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import representation_contexts_pb2 as contexts
from bertscope.v1 import representation_geometry_pb2 as geometry
from bertscope.v1.attention_pb2_grpc import AttentionServiceStub
from bertscope.v1.cloze_pb2_grpc import ClozeServiceStub
from bertscope.v1.representation_pb2_grpc import RepresentationServiceStub
from numpy.typing import NDArray

from benchmarks.lib.fillings import fillings
from benchmarks.lib.texts import cloze_texts, texts_of_lengths
from benchmarks.soak.asking import Answer, Ask, Caller, Question, Role
from benchmarks.soak.head_questions import HEADS

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


async def hidden_states(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls ExtractHiddenStates, of all layers."""
    texts = texts_of_lengths([12, 20, 9, 16], mask=False)
    found = [text async for text in caller.client.extract_hidden_states(texts, model=model, timeout=seconds)]
    return Answer(found[0].provenance.weights_digest, arrays=[text.states for text in found])


async def read_layers(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls ReadLayers, at every piece."""
    texts = texts_of_lengths([12, 9], mask=True)
    found = await caller.client.read_layers(texts, model=model, all_pieces=True, timeout=seconds)
    rows = [[(one.entropy, one.divergence) for one in position.layers] for text in found for position in text.positions]
    return Answer(found[0].provenance.weights_digest, arrays=[np.array(rows)])


async def attribute_words(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls AttributeWords: Shapley values, exact and sampled, of an answer and of a similarity."""
    masked, plain = texts_of_lengths([9, 18], mask=True), texts_of_lengths([7], mask=False)
    targets = [bertscope.Answer("paris", "water")] * 2 + [bertscope.SimilarTo("where is it")]
    found = await caller.client.attribute_words([*masked, *plain], targets, model=model, exact_units=7, timeout=seconds)
    return Answer(found[0].provenance.weights_digest, arrays=[one.values for one in found])


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
        async with aclosing(sweep):
            # On a busy server the texts go in several calls, whose effects come in another order, and come again where a call
            # was refused on its way. The trace adds them.
            effects = [await anext(sweep) for _ in range(self.most)] or (await sweep.table()).effects
        order = sorted(effects, key=lambda effect: (effect.layer, -1 if effect.position is None else effect.position))
        return Answer("", arrays=[np.array([effect.sum]) for effect in order])


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


async def score_relations(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls ScoreRelations; every word is linked with those before and after it. Accuracies are not compared: where two weights
    are as good as equal, either may be the larger one."""
    texts = [
        relations.RelationText(input=given, words=_words(given.text), pairs=_neighbours(len(given.text.split())))
        for given in _inputs()
    ]
    request = relations.ScoreRelationsRequest(model=model, texts=texts, relations=["next", "previous"])
    reply = await AttentionServiceStub(caller.channel).ScoreRelations(request, timeout=seconds)
    found = [np.array(way.largest_weight.sums) for one in reply.relations for way in (one.forward, one.backward)]
    return Answer(reply.provenance.weights_digest, arrays=found)


async def score_features(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls ScoreFeatures; every other word has the feature."""
    texts = [
        relations.FeatureText(input=given, spans=[relations.MarkedSpan(span=word) for word in _words(given.text)[::2]])
        for given in _inputs()
    ]
    request = relations.ScoreFeaturesRequest(model=model, texts=texts, features=["even"], special_tokens=True)
    reply = await AttentionServiceStub(caller.channel).ScoreFeatures(request, timeout=seconds)
    found = [np.array(sums.sums) for one in reply.features for sums in (one.attention, one.from_first_special)]
    return Answer(reply.provenance.weights_digest, arrays=found)


async def score_texts(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls ScoreTexts."""
    inputs = [scores.ScoredInput(text=given.text) for given in _inputs()]
    reply = await ClozeServiceStub(caller.channel).ScoreTexts(
        scores.ScoreTextsRequest(model=model, inputs=inputs), timeout=seconds
    )
    return Answer(reply.provenance.weights_digest, arrays=[np.array([one.log_likelihood for one in reply.results])])


@dataclass(frozen=True, slots=True)
class Facts:
    """Calls QueryFacts, of capitals. Ranks are not compared: where two entries are as good as equally likely, either may come
    first."""

    scoring: facts.ObjectScoring.ValueType

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        words = ["paris", "rome", "buenos aires", "kuala lumpur", "madrid"]
        template = facts.FactTemplate(text="The capital of [X] is [Y].")
        request = facts.QueryFactsRequest(
            model=model,
            relations=[facts.FactRelation(name="capital", templates=[template], candidates=words)],
            facts=[facts.Fact(subject=name, objects=words[:1], primes=words[1:2]) for name in ("France", "Italy", "Spain")],
            scoring=self.scoring,
            prior=self.scoring == facts.OBJECT_SCORING_SINGLE_ENTRY,
            top_k=0,
        )
        reply = await ClozeServiceStub(caller.channel).QueryFacts(request, timeout=seconds)
        answers = [answer for result in reply.results for answer in result.answers]
        logs = np.array([[answer.log_probability, answer.prior_log_probability] for answer in answers])
        return Answer(reply.provenance.weights_digest, arrays=[logs])


async def compare_texts(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls CompareTexts, with one set of all texts."""
    texts = [scores.ScoredInput(text=given.text) for given in _inputs()]
    request = scores.CompareTextsRequest(model=model, sets=[scores.TextSet(texts=texts)])
    reply = await ClozeServiceStub(caller.channel).CompareTexts(request, timeout=seconds)
    return Answer(reply.provenance.weights_digest, arrays=[np.array(one.log_likelihoods) for one in reply.results])


async def describe_geometry(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls DescribeGeometry, with second moments, which are summed over batches."""
    request = geometry.DescribeGeometryRequest(model=model, inputs=_inputs(), second_moments=True)
    reply = await RepresentationServiceStub(caller.channel).DescribeGeometry(request, timeout=seconds)
    moments = [np.frombuffer(layer.second_moments.data, "<f4") for layer in reply.layers]
    return Answer(reply.provenance.weights_digest, arrays=[*(np.array(layer.directions) for layer in reply.layers), *moments])


async def compare_representations(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls CompareRepresentations, of the model's own layers."""
    request = geometry.CompareRepresentationsRequest(model=model, inputs=_inputs())
    reply = await RepresentationServiceStub(caller.channel).CompareRepresentations(request, timeout=seconds)
    return Answer(reply.provenance.weights_digest, arrays=[np.array(sums) for sums in (reply.shared, reply.own, reply.other)])


async def find_contexts(caller: Caller, model: str, seconds: float) -> Answer:
    """Calls FindContexts for all heads."""
    texts = [contexts.ContextText(text=relations.RelationText(input=given), id=index) for index, given in enumerate(_inputs())]
    request = contexts.FindContextsRequest(model=model, texts=texts, heads=contexts.HeadUnits())
    digest, found = "", list[np.ndarray[Any, Any]]()
    async for event in RepresentationServiceStub(caller.channel).FindContexts(request, timeout=seconds):
        digest = event.summary.provenance.weights_digest or digest
        if event.HasField("units"):
            found += [np.array(event.units.sums), np.array(event.units.best_values)]
    return Answer(digest, arrays=found)


def _inputs() -> list[common.TextInput]:
    return [common.TextInput(text=text) for text in texts_of_lengths([12, 20, 9, 16], mask=False)]


def _words(text: str) -> list[common.CharacterSpan]:
    ends = list(accumulate(len(word) + 1 for word in text.split(" ")))
    return [common.CharacterSpan(start=start, end=end - 1) for start, end in zip([0, *ends], ends, strict=False)]


def _neighbours(count: int) -> list[relations.WordPair]:
    pairs = [(number, number + 1) for number in range(count - 1)]
    following = [relations.WordPair(relation=0, source=one, target=other) for one, other in pairs]
    return following + [relations.WordPair(relation=1, source=other, target=one) for one, other in pairs]


REDUCTIONS: dict[str, Ask] = {
    "DescribeAttention": Describe(texts_of_lengths([12, 20, 9, 16], mask=False)),
    "ScoreRelations": score_relations,
    "ScoreFeatures": score_features,
    "DescribeGeometry": describe_geometry,
    "CompareRepresentations": compare_representations,
    "FindContexts": find_contexts,
    "ScoreTexts": score_texts,
    "CompareTexts": compare_texts,
    "QueryFacts": Facts(facts.OBJECT_SCORING_SINGLE_ENTRY),
    "ExtractHiddenStates": hidden_states,
    "ReadLayers": read_layers,
    "AttributeWords": attribute_words,
    "AttributeWords, neurons": find_neurons,
    "QueryFacts, candidates": Facts(facts.OBJECT_SCORING_CANDIDATES),
}


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
        _plain("CompareAttention, ONNX", Role.ONNX, Describe(maps, _interventions())),
        _plain("Inspect, ONNX", Role.ONNX, Inspect(texts[0])),
        _plain("SweepHeads, ONNX", Role.ONNX, Sweep(texts[:4]), 0.5),
        _plain("SweepSites, ONNX", Role.ONNX, SweepSites(masked), 0.5),
        _plain("RankHeads, ONNX", Role.ONNX, rank),
        _plain("ModelInfer, ONNX", Role.ONNX, infer),
        *(_plain(name, Role.EMBEDDED, ask) for name, ask in REDUCTIONS.items()),
        *(_plain(f"{name}, guest", Role.GUEST, ask, 0.5) for name, ask in REDUCTIONS.items()),
        *(_plain(f"{name}, ONNX", Role.ONNX, ask) for name, ask in REDUCTIONS.items()),
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
