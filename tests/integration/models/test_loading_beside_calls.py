"""Loads, compressions, prunings and rankings beside running calls: nothing that other threads see changes, and every answer is
what it is without them."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import ablation_sites_pb2 as sites
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import attention_relations_pb2 as relations
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import cloze_facts_pb2 as facts
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import cloze_scores_pb2 as scores
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import distillation_pb2 as distillation
from bertscope.v1 import inspection_pb2 as inspection
from bertscope.v1 import model_pb2 as model
from bertscope.v1 import question_answering_pb2 as answers
from bertscope.v1 import representation_codes_pb2 as codes
from bertscope.v1 import representation_contexts_pb2 as contexts
from bertscope.v1 import representation_eraser_pb2 as erasers
from bertscope.v1 import representation_geometry_pb2 as geometry
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.v1 import representation_states_pb2 as states
from bertscope.v1 import representation_tuned_lens_pb2 as tuned
from bertscope.v1 import site_pb2, target_pb2
from numpy.typing import NDArray

from tests.support.exports import load_exported
from tests.support.harness import Host, LoopThread, launched, read_maps
from tests.support.patience import granted, wait_until
from tests.support.process_state import unchanged
from tests.support.relations import links
from tests.support.sweeps import masked_lm, matrix, text_input
from tests.support.tensor_calls import stub_of
from tests.support.tensors import arrays_of, request_of
from tests.support.tiny import ARCHITECTURES, FAMILY, SENTENCES, write_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECONDS = granted(300)
TEXTS = ("Paris is the capital of [MASK].", "The [MASK] sat.", "She plays the [MASK] in the garden near the old house.")
ANSWER = target_pb2.Target(mask=target_pb2.MaskTarget(answer="a", other="the"))
LABEL = target_pb2.Target(label=target_pb2.LabelTarget())
IN_PASSAGE = common.CharacterSpan(start=4, end=7, segment=1)
HEAD_TARGETS: dict[str, tuple[target_pb2.Target, tuple[str, ...]]] = {
    "sorter": (LABEL, ("The cat sat.",)),
    "topics": (LABEL, ("The cat sat.", "a")),
    "tagger": (target_pb2.Target(word_label=target_pb2.WordLabelTarget(word=common.CharacterSpan(end=3))), ("The cat sat.",)),
    "answerer": (target_pb2.Target(answer=target_pb2.AnswerTarget(answer=IN_PASSAGE)), ("Who sat?", "The cat sat.")),
    "rater": (target_pb2.Target(value=target_pb2.ValueTarget()), ("The cat sat.",)),
}
"""A target, and a text, by the model with the head that it needs."""
PRECISIONS = {"fp32": common.PRECISION_FLOAT32, "fp16": common.PRECISION_FLOAT16, "bf16": common.PRECISION_BFLOAT16}
Values = NDArray[np.floating]
Step = compression.CompressionStep


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("loading")
    return {name: write_checkpoint(name, root / name) for name in FAMILY}


@pytest.fixture(scope="module")
def host(loop: LoopThread, folders: dict[str, Path], sorters: dict[str, Path], export_cache: Path) -> Iterator[Host]:
    """One model run by ONNX Runtime, as the first, and one by PyTorch, as those with other heads."""
    for name in ("bert", "electra"):
        load_exported(folders[name], export_cache)
    with launched(loop, model=[f"graphs={folders['bert']}"], runtime="onnx", cache_folder=export_cache) as running:
        load(running, "weights", folders["roberta"])
        for name in HEADS:
            load(running, name, sorters[name])
        yield running


def load(host: Host, name: str, source: Path, precision: str = "fp32", runtime: int = common.RUNTIME_TORCH) -> model.Model:
    request = model.LoadModelRequest(model_id=name, source=str(source), precision=PRECISIONS[precision], runtime=runtime)
    *_, last = host.models.LoadModel(request, timeout=SECONDS)
    return last.model


def unload(host: Host, name: str) -> None:
    host.models.UnloadModel(model.UnloadModelRequest(name=f"models/{name}"), timeout=SECONDS)


def fill(host: Host, name: str) -> Values:
    request = cloze.FillMaskRequest(model=f"models/{name}", texts=TEXTS, top_k=5)
    found = host.cloze.FillMask(request, timeout=SECONDS).results
    return np.array([one.log_probability for text in found for mask in text.masks for one in mask.predictions])


CITIES = facts.FactRelation(name="cities", templates=[facts.FactTemplate(text="[X] is in the city of [Y], they say.")])
VIOLINS = facts.FactRelation(name="violins", templates=CITIES.templates, candidates=["the violin", "a", "unplayable"])


def facts_request(name: str, *, candidates: bool = False) -> facts.QueryFactsRequest:
    asked = [facts.Fact(subject=subject, objects=["a"], primes=["the"]) for subject in ("Paris", "the old house", "Rome")]
    scoring = facts.OBJECT_SCORING_CANDIDATES if candidates else facts.OBJECT_SCORING_SINGLE_ENTRY
    return facts.QueryFactsRequest(
        model=f"models/{name}",
        relations=[VIOLINS if candidates else CITIES],
        facts=asked,
        scoring=scoring,
        prior=not candidates,
        top_k=2,
    )


def known(host: Host, name: str) -> Values:
    """Single entries, and phrases."""
    found = [host.cloze.QueryFacts(facts_request(name, candidates=each), timeout=SECONDS) for each in (False, True)]
    answers = [answer for reply in found for result in reply.results for answer in result.answers]
    return np.array([[one.log_probability, one.prior_log_probability, one.predictions[0].log_probability] for one in answers])


def maps(host: Host, name: str) -> Values:
    request = attention.ExtractAttentionRequest(model=f"models/{name}", inputs=[text_input(TEXTS[2])])
    (found,) = read_maps(host.attention.ExtractAttention(request, timeout=SECONDS))
    return found.values.astype(np.float64)


def hidden_states(host: Host, name: str) -> Values:
    request = states.ExtractHiddenStatesRequest(model=f"models/{name}", inputs=[text_input(text) for text in TEXTS])
    found = read_maps(host.representation.ExtractHiddenStates(request, timeout=SECONDS))
    return np.concatenate([one.values.reshape(-1) for one in found])


def tensors(host: Host, name: str) -> Values:
    ids = np.arange(5, 13, dtype=np.int64)[None]
    request = request_of({"input_ids": ids}, ["logits"], model=name)
    found = arrays_of(stub_of(host).ModelInfer(request, timeout=SECONDS))["logits"]
    assert found.dtype == np.float32
    return found


def rank(host: Host, name: str) -> Values:
    request = ablation.RankHeadsRequest(model=f"models/{name}", objective=masked_lm(SENTENCES[:3]))
    return matrix(host.ablation.RankHeads(request, timeout=SECONDS).importance)


PAIRED = [(SENTENCES[1],), (SENTENCES[2], SENTENCES[1]), (SENTENCES[-1],)]
LINKED = [links((text,), seed, count=12) for seed, text in enumerate(SENTENCES[1:])]


def relations_request(name: str) -> relations.ScoreRelationsRequest:
    texts = [
        relations.RelationText(
            input=text_input(*text.texts),
            words=[common.CharacterSpan(start=start, end=end, segment=segment) for start, end, segment in text.words],
            pairs=[relations.WordPair(relation=number, source=source, target=target) for number, source, target in text.pairs],
        )
        for text in LINKED
    ]
    return relations.ScoreRelationsRequest(model=f"models/{name}", texts=texts, relations=["a", "b", "c"])


def features_request(name: str) -> relations.ScoreFeaturesRequest:
    texts = [
        relations.FeatureText(
            input=text_input(*text.texts),
            spans=[
                relations.MarkedSpan(feature=place % 2, span=common.CharacterSpan(start=start, end=end, segment=segment))
                for place, (start, end, segment) in enumerate(text.words)
            ],
        )
        for text in LINKED
    ]
    return relations.ScoreFeaturesRequest(model=f"models/{name}", texts=texts, features=["a", "b"], special_tokens=True)


def scores_request(name: str) -> scores.ScoreTextsRequest:
    inputs = [scores.ScoredInput(text=text.replace("[MASK]", "unplayable")) for text in TEXTS]
    return scores.ScoreTextsRequest(model=f"models/{name}", inputs=inputs)


def scored(host: Host, name: str) -> Values:
    found = host.cloze.ScoreTexts(scores_request(name), timeout=SECONDS).results
    return np.array([one.log_likelihood for one in found])


def sets_compared(host: Host, name: str) -> Values:
    inputs = scores_request(name).inputs
    request = scores.CompareTextsRequest(model=f"models/{name}", sets=[scores.TextSet(texts=inputs)])
    return np.array(host.cloze.CompareTexts(request, timeout=SECONDS).results[0].log_likelihoods)


def linked(host: Host, name: str) -> Values:
    found = host.attention.ScoreRelations(relations_request(name), timeout=SECONDS).relations
    directions = [direction for relation in found for direction in (relation.forward, relation.backward)]
    sums = [[*one.largest_weight.sums, *one.largest_weight_by_chance.sums, *one.correct] for one in directions]
    return np.array(sums) / len(LINKED)


def marked(host: Host, name: str) -> Values:
    found = host.attention.ScoreFeatures(features_request(name), timeout=SECONDS).features
    return np.array([[*one.attention.sums, *one.from_first_special.sums] for one in found]) / len(LINKED)


def described(host: Host, name: str) -> Values:
    request = statistics_pb2.DescribeAttentionRequest(model=f"models/{name}", inputs=[text_input(*one) for one in PAIRED])
    found = host.attention.DescribeAttention(request, timeout=SECONDS).statistics
    return np.array([one.sums.sums for one in found]) / len(PAIRED)


def compared_request(name: str) -> statistics_pb2.CompareAttentionRequest:
    closed = common.HeadIntervention(layer=0, heads=[0, 2], mode=common.HeadIntervention.MODE_UNIFORM)
    inputs = [text_input(*one) for one in PAIRED]
    return statistics_pb2.CompareAttentionRequest(model=f"models/{name}", inputs=inputs, interventions=[closed])


def compared(host: Host, name: str) -> Values:
    found = host.attention.CompareAttention(compared_request(name), timeout=SECONDS)
    return np.array([found.cosine.sums, found.divergence.sums, *(one.sums.sums for one in found.differences)]) / len(PAIRED)


def inspected(host: Host, name: str) -> Values:
    """Predictions and distances of two runs."""
    request = inspection.InspectRequest(
        model=f"models/{name}",
        input=text_input(TEXTS[0]),
        interventions=compared_request(name).interventions,
        compare_untouched=True,
        maps=[inspection.MapView(pixels=4)],
    )
    header, distances, *_ = host.inspection.Inspect(request, timeout=SECONDS)
    masks = (*header.header.masks, *header.header.untouched_masks)
    logs = [one.log_probability for mask in masks for one in mask.predictions]
    return np.concatenate([logs, matrix(distances.distances.moved).ravel()])


def located(host: Host, name: str) -> Values:
    inputs = [text_input(*one) for one in PAIRED]
    request = geometry.DescribeGeometryRequest(model=f"models/{name}", inputs=inputs, second_moments=True)
    found = host.representation.DescribeGeometry(request, timeout=SECONDS)
    moments = [np.frombuffer(layer.second_moments.data, "<f4") / found.vectors for layer in found.layers]
    return np.concatenate([np.array([layer.directions for layer in found.layers]).ravel() / found.vectors, *moments])


def alike(host: Host, name: str) -> Values:
    inputs = [text_input(*one) for one in PAIRED]
    closed = common.HeadIntervention(layer=0, heads=[0, 2], mode=common.HeadIntervention.MODE_UNIFORM)
    request = geometry.CompareRepresentationsRequest(model=f"models/{name}", inputs=inputs, interventions=[closed])
    found = host.representation.CompareRepresentations(request, timeout=SECONDS)
    shared = np.reshape(found.shared, (len(found.layers), -1))
    return shared / np.sqrt(np.outer(found.own, found.other))


def read(host: Host, name: str) -> Values:
    inputs = [lens.LensInput(text=text) for text in TEXTS]
    found = host.representation.ReadLayers(lens.ReadLayersRequest(model=f"models/{name}", inputs=inputs), timeout=SECONDS)
    layers = [layer for text in found.results for position in text.positions for layer in position.layers]
    return np.array([[layer.entropy, layer.divergence, layer.top[0].log_probability] for layer in layers])


def swept(host: Host, name: str) -> Values:
    """Kept states, vectors of another run and noise, at sites of all kinds."""
    target = target_pb2.Target(mask=target_pb2.MaskTarget(answer="the"))
    words = site_pb2.CharacterSpans(spans=[common.CharacterSpan(start=0, end=5)])
    noise = sites.EmbeddingNoise(spans=words, samples=2)
    pairs = [sites.PatchedPair(clean=text_input(text), noise=noise, target=target) for text in TEXTS[:2]]
    scopes = [sites.SiteScope(site=site, layers=[1]) for site in (site_pb2.SITE_STATE, site_pb2.SITE_ACTIVATIONS)]
    request = sites.SweepSitesRequest(model=f"models/{name}", pairs=pairs, scopes=scopes)
    events = host.ablation.SweepSites(request, timeout=SECONDS)
    return np.array([event.effect.sum for event in events if event.HasField("effect")])


def changed_sites(host: Host, name: str) -> Values:
    """Vectors of another text's mask at sites of all kinds; and attention that is blocked."""
    source = site_pb2.SiteSource(input=text_input(TEXTS[1]))
    everywhere = (site_pb2.SITE_STATE, site_pb2.SITE_HEAD_OUTPUT, site_pb2.SITE_FEED_FORWARD_OUTPUT)
    masks = site_pb2.Positions(kind=site_pb2.Positions.KIND_MASKS)
    first = site_pb2.Positions(kind=site_pb2.Positions.KIND_FIRST)
    taken = site_pb2.SiteChange(source=source)
    changes = [site_pb2.SiteIntervention(site=site, layer=1, positions=masks, change=taken) for site in everywhere]
    blocked = site_pb2.SiteChange(block=first)
    changes.append(site_pb2.SiteIntervention(site=site_pb2.SITE_ATTENTION, layer=0, positions=masks, change=blocked))
    request = cloze.FillMaskRequest(model=f"models/{name}", texts=[TEXTS[0]], site_interventions=changes)
    found = host.cloze.FillMask(request, timeout=SECONDS)
    return np.array([one.log_probability for mask in found.results[0].masks for one in mask.predictions])


def attributed(host: Host, name: str) -> Values:
    inputs = [lens.AttributedInput(text=text, answer="a", other_answer="the") for text in TEXTS]
    request = lens.AttributeLogitsRequest(model=f"models/{name}", inputs=inputs)
    found = host.representation.AttributeLogits(request, timeout=SECONDS).results
    return np.array([[one.difference, one.embeddings, *one.feed_forward, *matrix(one.heads).ravel()] for one in found])


def explained(host: Host, name: str, target: target_pb2.Target = ANSWER, text: tuple[str, ...] = ()) -> Values:
    """Values by Shapley, exact and sampled, and by occlusion."""
    texts = [text] if text else [(one,) for one in TEXTS]
    inputs = [attribution.AttributedText(text=one, text_pair=(*pair, None)[0], target=target) for one, *pair in texts]
    found = list[float]()
    for fields in ({"exact_units": 5, "pairs": 2}, {"method": attribution.ATTRIBUTION_METHOD_OCCLUSION}):
        request = attribution.AttributeWordsRequest(model=f"models/{name}", inputs=inputs, **fields)  # type: ignore[arg-type]
        for one in host.attribution.AttributeWords(request, timeout=SECONDS).results:
            found += one.values
    return np.array(found)


def labelled_words() -> list[probes.ProbeText]:
    """Texts of which each word is labelled: whether it is the first."""
    texts = []
    for text in SENTENCES[:4]:
        ends = [end for end, letter in enumerate(f"{text} ") if letter == " "]
        spans = [common.CharacterSpan(start=begin + 1, end=end) for begin, end in pairwise([-1, *ends])]
        labelled = [probes.LabelledSpan(span=span, label=int(index > 0)) for index, span in enumerate(spans)]
        texts.append(probes.ProbeText(input=text_input(text), spans=labelled))
    return texts


def probed(host: Host, name: str) -> Values:
    """Probes of one epoch."""
    texts = labelled_words()
    request = probes.TrainProbeRequest(model=f"models/{name}", train=texts, dev=texts, labels=["first", "other"], max_epochs=1)
    (report,) = (event.report for event in host.representation.TrainProbe(request, timeout=SECONDS) if event.HasField("report"))
    return np.array([[run.dev.loss for run in (*layer.task, *layer.control)] for layer in report.layers])


def erased(host: Host, name: str) -> Values:
    """The means that the classes have after erasing, and the ranks of the maps."""
    request = erasers.TrainEraserRequest(model=f"models/{name}", train=labelled_words(), labels=["first", "other"])
    events = list(host.representation.TrainEraser(request, timeout=SECONDS))
    found = [event.eraser for event in events if event.HasField("eraser")]
    return np.array([[*np.frombuffer(one.projection.mean.data, "<f4"), one.rank] for one in found])


def found_contexts(host: Host, name: str) -> Values:
    """The largest values and the sums of heads."""
    texts = [
        contexts.ContextText(text=relations.RelationText(input=text_input(one)), id=at) for at, one in enumerate(SENTENCES)
    ]
    request = contexts.FindContextsRequest(model=f"models/{name}", texts=texts, heads=contexts.HeadUnits(), sample=10)
    events = list(host.representation.FindContexts(request, timeout=SECONDS))
    found = [event.units for event in events if event.HasField("units")]
    return np.concatenate([np.array([*one.sums, *one.best_values, *one.sample_values]) for one in found])


def tuned_lens(host: Host, name: str) -> Values:
    """Maps of one epoch. By both libraries, gradients are PyTorch's."""
    inputs = [text_input(text) for text in SENTENCES[:4]]
    request = tuned.TrainLensRequest(model=f"models/{name}", train=inputs, dev=inputs, max_epochs=1)
    (report,) = (event.report for event in host.representation.TrainLens(request, timeout=SECONDS) if event.HasField("report"))
    return np.array([[layer.before.divergence, layer.after.divergence] for layer in report.layers])


def coded(host: Host, name: str) -> Values:
    """What sparse codes of one epoch explain and cost."""
    inputs = [text_input(text) for text in SENTENCES[:4]]
    request = codes.TrainCodesRequest(model=f"models/{name}", train=inputs, dev=inputs, layer=1, codes=8, active=2, epochs=1)
    (report,) = (event.report for event in host.representation.TrainCodes(request, timeout=SECONDS) if event.HasField("report"))
    return np.array([report.explained, report.losses.coded, report.losses.loss])


def labelled(host: Host, name: str) -> Values:
    inputs = [text_input(*one) for one in PAIRED]
    request = classification.ClassifyRequest(model=f"models/{name}", inputs=inputs)
    found = host.classification.Classify(request, timeout=SECONDS).results
    return np.array([sorted(label.probability for label in one.labels) for one in found])


def tagged(host: Host, name: str) -> Values:
    inputs = [classification.TaggedInput(input=text_input(*one)) for one in PAIRED]
    request = classification.ClassifyTokensRequest(model=f"models/{name}", inputs=inputs)
    found = host.classification.ClassifyTokens(request, timeout=SECONDS).results
    return np.array([word.labels[0].probability for one in found for word in one.words])


def answered(host: Host, name: str) -> Values:
    asked = [answers.Question(question="Who sat?", passage=text) for text in SENTENCES[:6] if text]
    request = answers.AnswerQuestionsRequest(model=f"models/{name}", inputs=asked)
    found = host.answering.AnswerQuestions(request, timeout=SECONDS).results
    return np.array([[one.no_answer_score, one.spans[0].score] for one in found])


def valued(host: Host, name: str) -> Values:
    inputs = [text_input(*one) for one in PAIRED]
    request = classification.PredictValuesRequest(model=f"models/{name}", inputs=inputs)
    return np.array([one.value for one in host.classification.PredictValues(request, timeout=SECONDS).results])


QUESTIONS: dict[str, Callable[[Host, str], Values]] = {
    "fill": fill,
    "facts": known,
    "maps": maps,
    "states": hidden_states,
    "tensors": tensors,
    "relations": linked,
    "features": marked,
    "scores": scored,
    "sets": sets_compared,
    "described": described,
    "compared": compared,
    "inspected": inspected,
    "located": located,
    "alike": alike,
    "read": read,
    "attributed": attributed,
    "changed sites": changed_sites,
    "swept": swept,
    "explained": explained,
    "probed": probed,
    "tuned": tuned_lens,
    "coded": coded,
    "contexts": found_contexts,
    "erased": erased,
}
HEADS: dict[str, Callable[[Host, str], Values]] = {
    "sorter": labelled,
    "topics": labelled,
    "tagger": tagged,
    "answerer": answered,
    "rater": valued,
}
"""Questions by the model with the head that they need."""


@contextmanager
def asked_meanwhile(host: Host) -> Iterator[None]:
    """Callers of both runtimes, all of whose answers must be what they were before."""
    asked = {(what, name): ask for what, ask in QUESTIONS.items() for name in ("graphs", "weights")}
    asked |= {("its head", name): ask for name, ask in HEADS.items()}
    asked |= {("why", name): partial(explained, target=target, text=text) for name, (target, text) in HEAD_TARGETS.items()}
    expected = {key: ask(host, key[1]) for key, ask in asked.items()}
    stopped, done = threading.Event(), []

    def call(what: str, name: str) -> None:
        while not stopped.is_set():
            found = asked[what, name](host, name)
            np.testing.assert_allclose(found, expected[what, name], atol=2e-5, err_msg=f"{what} {name}")
            done.append(what)

    with ThreadPoolExecutor(len(asked)) as threads:
        calls = [threads.submit(call, *key) for key in asked]
        try:
            yield
        finally:
            stopped.set()
        for each in calls:
            each.result()
    assert len(done) > len(asked)


def compress(host: Host, name: str, *steps: Step, folder: Path | None = None) -> model.Model:
    request = model.CompressModelRequest(model="models/weights", model_id=name, steps=steps, folder=str(folder or ""))
    *_, last = host.models.CompressModel(request, timeout=SECONDS)
    return last.model


STEPS = {
    "fp16": (Step(half=compression.HalfPrecision(precision=common.PRECISION_FLOAT16)),),
    "int8": (Step(int8=compression.Int8Quantization()),),
    "dictionary": (Step(weight_only=compression.WeightOnlyQuantization(bits=4)),),
    "layers": (Step(layers=compression.LayerSelection(layers=[0, 2])),),
    "units": (
        Step(
            feed_forward=compression.FeedForwardRemoval(
                share=0.25, criterion=compression.FeedForwardRemoval.CRITERION_IMPORTANCE, texts=SENTENCES[:2]
            )
        ),
    ),
    "magnitude": (Step(magnitude=compression.MagnitudePruning(share=0.5)),),
    "tokens": (Step(tokens=compression.TokenElimination(kept_shares=[1, 0.75, 0.5, 0.5])),),
    "vocabulary": (Step(vocabulary=compression.VocabularyReduction(texts=SENTENCES)),),
}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_loads_change_nothing_that_others_see(
    host: Host, folders: dict[str, Path], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every architecture in float32, of some in half precision."""
    with asked_meanwhile(host), unchanged(monkeypatch) as looks:
        for name in FAMILY if precision == "fp32" else ARCHITECTURES:
            load(host, name, folders[name], precision)
            fill(host, name)
            unload(host, name)
    assert looks() > 10


@pytest.mark.parametrize("steps", STEPS)
def test_compressions_change_nothing_that_others_see(
    host: Host, steps: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with asked_meanwhile(host), unchanged(monkeypatch) as looks:
        compress(host, "small", *STEPS[steps], folder=tmp_path / "small")
        unload(host, "small")
        load(host, "small", tmp_path / "small")
        unload(host, "small")
    assert looks() > 10


def test_distillations_change_nothing_that_others_see(host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the rounding of integers, which replaces modules of the student. Each of its steps waits for all these callers'."""
    texts = [distillation.DistillationText(input=text_input(text)) for text in SENTENCES[1:5]]
    request = distillation.DistillModelRequest(
        model="models/weights",
        model_id="small",
        folder=str(tmp_path / "small"),
        steps=[*STEPS["layers"], *STEPS["int8"]],
        train=texts,
        dev=texts,
        test=texts,
        objective=distillation.DistillationObjective(attention=1),
        epochs=1,
        evaluations=1,
    )
    with asked_meanwhile(host), unchanged(monkeypatch) as looks:
        *_, last = host.distillation.DistillModel(request, timeout=SECONDS)
        assert last.model.name == "models/small"
        unload(host, "small")
    assert looks() > 10


def test_exports_change_nothing_that_others_see(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with asked_meanwhile(host), unchanged(monkeypatch) as looks:
        compress(host, "small", Step(onnx=compression.OnnxExport()), Step(int8=compression.Int8Quantization()))
        unload(host, "small")
    assert looks() > 10


def test_prunings_and_rankings_change_nothing_that_others_see(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [common.LayerHeads(layer=1, heads=[0, 2])]
    with asked_meanwhile(host), unchanged(monkeypatch) as looks:
        for name in ("graphs", "weights"):
            request = ablation.PruneHeadsRequest(model=f"models/{name}", model_id="pruned", heads=heads)
            host.ablation.PruneHeads(request, timeout=SECONDS)
            rank(host, name)
            unload(host, "pruned")
    assert looks() > 10


def test_six_rankings_at_once_of_a_model_run_by_onnx(host: Host, folders: dict[str, Path]) -> None:
    """Each of them may read a twin for PyTorch; what they give is what a ranking alone does."""
    load(host, "twin", folders["electra"], runtime=common.RUNTIME_ONNX)
    load(host, "alone", folders["electra"])
    expected = rank(host, "alone")
    with asked_meanwhile(host), ThreadPoolExecutor(6) as threads:
        for found in threads.map(lambda _: rank(host, "twin"), range(6)):
            np.testing.assert_allclose(found, expected, atol=1e-5)
    unload(host, "twin")
    unload(host, "alone")


def test_models_that_are_loaded_at_once_are_those_that_are_loaded_alone(host: Host, folders: dict[str, Path]) -> None:
    jobs = {
        f"{name}-{precision}": (folder, precision)
        for number, (name, folder) in enumerate((name, folders[name]) for name in ARCHITECTURES)
        for precision in ("fp16" if number % 2 else "bf16", "fp32")
    }
    expected = {}
    for name, (folder, precision) in jobs.items():
        load(host, name, folder, precision)
        expected[name] = fill(host, name)
        unload(host, name)
    with asked_meanwhile(host):
        for _ in range(2):
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(lambda name: load(host, name, *jobs[name]), jobs))
            for name in jobs:
                np.testing.assert_array_equal(fill(host, name), expected[name], err_msg=name)
                unload(host, name)


def test_callers_that_leave_change_no_answer(host: Host) -> None:
    """Their rows share batches with those of callers that stay."""
    codes = []
    with asked_meanwhile(host):
        for number in range(60):
            name = ("graphs", "weights")[number % 2]
            calls = [
                host.attention.ScoreRelations.future(relations_request(name), timeout=SECONDS),
                host.attention.ScoreFeatures.future(features_request(name), timeout=SECONDS),
                host.attention.CompareAttention.future(compared_request(name), timeout=SECONDS),
                host.cloze.ScoreTexts.future(scores_request(name), timeout=SECONDS),
                host.cloze.QueryFacts.future(facts_request(name, candidates=number % 2 == 0), timeout=SECONDS),
            ]
            if number % 3:
                fill(host, name)  # meanwhile, they wait, run or end
            for call in calls:
                call.cancel()
                codes.append(call.code())
    assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.CANCELLED}
    assert grpc.StatusCode.CANCELLED in codes
    wait_until(lambda: host.metric("bertscope_queue_rows", device="cpu") == 0, "their rows are gone")
