"""Requests of every rpc: one that is answered, and at least one that is refused where anything can be wrong with it."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertscope.inference import open_inference_pb2 as oip
from bertscope.v1 import (
    ablation_pb2,
    attention_pb2,
    benchmark_pb2,
    classification_pb2,
    cloze_pb2,
    common_pb2,
    distillation_pb2,
    model_pb2,
    site_pb2,
    target_pb2,
)
from bertscope.v1 import ablation_sites_pb2 as sites
from bertscope.v1 import attention_relations_pb2 as relations
from bertscope.v1 import attention_statistics_pb2 as attention_statistics
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import cloze_facts_pb2 as facts
from bertscope.v1 import cloze_scores_pb2 as scores
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import inspection_pb2 as inspection
from bertscope.v1 import question_answering_pb2 as answering
from bertscope.v1 import representation_codes_pb2 as codes
from bertscope.v1 import representation_contexts_pb2 as contexts
from bertscope.v1 import representation_eraser_pb2 as erasers
from bertscope.v1 import representation_geometry_pb2 as geometry
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope.v1 import representation_probe_application_pb2 as application
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.v1 import representation_states_pb2 as states
from bertscope.v1 import representation_structural_probes_pb2 as structural
from bertscope.v1 import representation_tuned_lens_pb2 as tuned
from google.protobuf.message import Message

WORD = "tirilirilirili"
SAID = f"The {WORD} sat on the [MASK]."
ZERO = common_pb2.HeadIntervention.MODE_ZERO
INPUT = common_pb2.TextInput(text=SAID, text_pair=WORD)
LONG = common_pb2.TextInput(text=f"{WORD} " * 500)
MASKED_LM = ablation_pb2.Objective(masked_lm_loss=ablation_pb2.MaskedLmLoss(texts=[SAID, WORD]))
MASKLESS = ablation_pb2.Objective(
    cloze=ablation_pb2.ClozePrompts(prompts=[ablation_pb2.ClozePrompt(text=WORD, answers=[WORD])])
)
LABELLED = ablation_pb2.LabelledText(input=INPUT, label=WORD)
MISLABELLED = ablation_pb2.Objective(classification=ablation_pb2.LabelledTexts(texts=[LABELLED]))
BRIEF = {"min_runs": 3, "min_seconds": 0.0, "batch_sizes": [1]}
HEADS = [common_pb2.LayerHeads(layer=0, heads=[0])]
FIRST_LAYERS = compression.CompressionStep(layers=compression.LayerSelection(layers=[0, 1]))
LEARNED = distillation_pb2.DistillationText(input=INPUT)
SOME_HEADS = compression.CompressionStep(heads=compression.HeadRemoval(share=0.2, texts=[SAID]))
TOO_MANY_HEADS = compression.CompressionStep(heads=compression.HeadRemoval(share=1.5, texts=[SAID]))

SPANS = [common_pb2.CharacterSpan(start=0, end=3), common_pb2.CharacterSpan(start=4, end=18)]
ZEROED = common_pb2.HeadIntervention(layer=1, heads=[0], mode=common_pb2.HeadIntervention.MODE_ZERO)
LINKED = relations.RelationText(input=INPUT, words=SPANS, pairs=[relations.WordPair(source=1, target=0)])
MARKED = relations.FeatureText(input=INPUT, spans=[relations.MarkedSpan(span=span) for span in SPANS])
SCORED = scores.ScoredInput(text=SAID, text_pair=WORD, spans=SPANS)
SET = scores.TextSet(texts=[SCORED, scores.ScoredInput(text=SAID)], groups=[WORD])
TWICE_SCORED = scores.ScoredInput(text=SAID, spans=[SPANS[0], SPANS[0]])
ABOUT = facts.FactRelation(name=WORD, templates=[facts.FactTemplate(text=f"{WORD}: [X] is in the [Y].")])
KNOWN = facts.Fact(subject=WORD, objects=[WORD, "the"], primes=[WORD])
ASKED = answering.Question(question=SAID, passage=f"{WORD} sat. " * 40)
LENS = lens.LensInput(text=SAID, text_pair=WORD)
TAKEN_APART = lens.AttributedInput(text=SAID, answer="the", other_answer="cat")
THE_OVER_CAT = target_pb2.Target(mask=target_pb2.MaskTarget(answer="the", other="cat"))
EXPLAINED = attribution.AttributedText(text=SAID, text_pair=WORD, target=THE_OVER_CAT, spans=SPANS)
PARTS = site_pb2.CharacterSpans(spans=SPANS)
NOISY = sites.EmbeddingNoise(spans=PARTS, samples=2)
PATCHED = sites.PatchedPair(clean=INPUT, noise=NOISY, target=THE_OVER_CAT)
MISMATCHED = sites.PatchedPair(clean=INPUT, corrupted=common_pb2.TextInput(text=WORD), target=THE_OVER_CAT)
SITES = [sites.SiteScope(site=site_pb2.SITE_STATE, layers=[1]), sites.SiteScope(site=site_pb2.SITE_ACTIVATIONS, units=[0, 2])]
PROBED = probes.ProbeText(input=INPUT, spans=[probes.LabelledSpan(span=span, label=index) for index, span in enumerate(SPANS)])
GROWN = structural.TreeText(input=INPUT, words=[structural.TreeWord(span=span, head=index) for index, span in enumerate(SPANS)])
CLASSIFIED = application.ProbedText(
    input=INPUT, spans=[application.ProbedSpan(span=span, label=index) for index, span in enumerate(SPANS)]
)
TAGGED = classification_pb2.TaggedInput(input=INPUT, words=SPANS)
OVERLAPPING = relations.RelationText(input=INPUT, words=[SPANS[0], SPANS[0]], pairs=LINKED.pairs)


def some_probe(size: int, layer: int = 0) -> probes.ProbeWeights:
    """A probe of two classes for states of this size."""
    return probes.ProbeWeights(layer=layer, weights=zeros(size, 2), biases=zeros(2))


def zeros(*shape: int) -> common_pb2.Tensor:
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=shape, data=bytes(4 * math.prod(shape)))


def infer(name: str, text: str) -> oip.ModelInferRequest:
    contents = oip.InferTensorContents(bytes_contents=[text.encode()])
    tensor = oip.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[1], contents=contents)
    return oip.ModelInferRequest(model_name=name, inputs=[tensor])


def measure(**fields: Any) -> benchmark_pb2.BenchmarkModelsRequest:
    return benchmark_pb2.BenchmarkModelsRequest(models=["models/bert"], **fields)


def good(folder: Path) -> dict[str, Message]:
    """A request of each rpc that is answered, in this order, by a server of models/bert, models/sorter, models/tagger,
    models/rater and models/answerer; `folder` is a model's. Some of them leave a model behind."""
    brief = benchmark_pb2.Measurement(texts=[SAID], **BRIEF)
    size = json.loads((folder / "config.json").read_text(encoding="utf-8"))["hidden_size"]
    return {
        "FillMask": cloze_pb2.FillMaskRequest(texts=[SAID]),
        "ScoreTexts": scores.ScoreTextsRequest(inputs=[SCORED], pieces=True),
        "CompareTexts": scores.CompareTextsRequest(sets=[SET]),
        "QueryFacts": facts.QueryFactsRequest(relations=[ABOUT], facts=[KNOWN], prior=True),
        "ExtractAttention": attention_pb2.ExtractAttentionRequest(inputs=[INPUT]),
        "Inspect": inspection.InspectRequest(
            input=INPUT, interventions=[ZEROED], compare_untouched=True, maps=[inspection.MapView(pixels=4)]
        ),
        "ApplyProbe": application.ApplyProbeRequest(
            inputs=[CLASSIFIED], probes=[some_probe(size)], labels=[WORD, SAID], top_k=2
        ),
        "TrainProbe": probes.TrainProbeRequest(train=[PROBED, PROBED], labels=[WORD, SAID], max_epochs=1),
        "TrainStructuralProbe": structural.TrainStructuralProbeRequest(train=[GROWN, GROWN], max_epochs=1),
        "FindContexts": contexts.FindContextsRequest(
            texts=[contexts.ContextText(text=LINKED)], heads=contexts.HeadUnits(), words=[WORD]
        ),
        "TrainEraser": erasers.TrainEraserRequest(train=[PROBED, PROBED], labels=[WORD, SAID]),
        "TrainLens": tuned.TrainLensRequest(train=[INPUT, INPUT], max_epochs=1),
        "TrainCodes": codes.TrainCodesRequest(train=[INPUT, INPUT], layer=1, codes=8, active=2, epochs=1),
        "ExtractHiddenStates": states.ExtractHiddenStatesRequest(
            inputs=[INPUT], unit=states.STATE_UNIT_SPAN, spans=[states.TextSpans(spans=SPANS)]
        ),
        "EmbedTexts": states.EmbedTextsRequest(inputs=[INPUT], normalize=True),
        "ScoreRelations": relations.ScoreRelationsRequest(texts=[LINKED], relations=[WORD]),
        "ScoreFeatures": relations.ScoreFeaturesRequest(texts=[MARKED], features=[WORD], special_tokens=True),
        "CompareAttention": attention_statistics.CompareAttentionRequest(other_model="models/headless", inputs=[INPUT]),
        "DescribeAttention": attention_statistics.DescribeAttentionRequest(inputs=[INPUT], head_distances=True),
        "DescribeGeometry": geometry.DescribeGeometryRequest(inputs=[INPUT], words=[WORD], second_moments=True),
        "CompareRepresentations": geometry.CompareRepresentationsRequest(other_model="models/headless", inputs=[INPUT]),
        "ReadLayers": lens.ReadLayersRequest(
            inputs=[LENS, lens.LensInput(text=SAID, spans=SPANS)], candidates=["the"], top_k=2
        ),
        "AttributeLogits": lens.AttributeLogitsRequest(inputs=[TAKEN_APART], ablate=True),
        "AttributeWords": attribution.AttributeWordsRequest(inputs=[EXPLAINED], interactions=True),
        "Classify": classification_pb2.ClassifyRequest(model="models/sorter", inputs=[INPUT]),
        "PredictValues": classification_pb2.PredictValuesRequest(model="models/rater", inputs=[INPUT]),
        "ClassifyTokens": classification_pb2.ClassifyTokensRequest(model="models/tagger", inputs=[TAGGED], top_k=2),
        "AnswerQuestions": answering.AnswerQuestionsRequest(model="models/answerer", inputs=[ASKED], best=2),
        "SweepHeads": ablation_pb2.SweepHeadsRequest(objective=MASKED_LM, mode=ZERO),
        "SweepSites": sites.SweepSitesRequest(pairs=[PATCHED], scopes=SITES),
        "RankHeads": ablation_pb2.RankHeadsRequest(objective=MASKED_LM),
        "PruneHeads": ablation_pb2.PruneHeadsRequest(heads=HEADS, model_id="pruned"),
        "LoadModel": model_pb2.LoadModelRequest(model_id="spare", source=str(folder)),
        "CompressModel": model_pb2.CompressModelRequest(model_id="small", steps=[SOME_HEADS]),
        "DistillModel": distillation_pb2.DistillModelRequest(
            model_id="student",
            folder=str(folder.with_name(f"student-{secrets.token_hex(4)}")),
            steps=[FIRST_LAYERS],
            train=[LEARNED],
            dev=[LEARNED],
            test=[LEARNED],
            epochs=1,
            evaluations=1,
        ),
        "ListModels": model_pb2.ListModelsRequest(),
        "GetModel": model_pb2.GetModelRequest(name="models/bert"),
        "UnloadModel": model_pb2.UnloadModelRequest(name="models/spare"),
        "BenchmarkModels": measure(measurement=brief, agreement_texts=[SAID]),
        "BenchmarkStudies": benchmark_pb2.BenchmarkStudiesRequest(
            systems=["DistilBERT"], measurement=benchmark_pb2.Measurement(lengths=[8], **BRIEF)
        ),
        "ModelInfer": infer("bert", SAID),
        "ServerLive": oip.ServerLiveRequest(),
        "ServerReady": oip.ServerReadyRequest(),
        "ServerMetadata": oip.ServerMetadataRequest(),
        "ModelReady": oip.ModelReadyRequest(name="bert"),
        "ModelMetadata": oip.ModelMetadataRequest(name="bert"),
        "ModelConfig": oip.ModelConfigRequest(name="bert"),
    }


REFUSED: Sequence[tuple[str, Message]] = [
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[WORD])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID, LONG.text])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], candidates=[WORD, WORD])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], candidates=[f"{WORD}🦖"])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], reference_texts=[WORD])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], text_candidates=[cloze_pb2.CandidateList(words=[WORD, WORD])])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], candidates=[WORD], piece_ids=[1])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID, WORD], decoding=cloze_pb2.MASK_DECODING_BEAM)),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID, LONG.text], max_pieces=3)),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], candidates=[WORD], max_pieces=3)),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], text_pairs=[WORD, WORD])),
    ("ScoreTexts", scores.ScoreTextsRequest(inputs=[SCORED, scores.ScoredInput(text=LONG.text)])),
    ("ScoreTexts", scores.ScoreTextsRequest(inputs=[TWICE_SCORED])),
    ("CompareTexts", scores.CompareTextsRequest(sets=[SET, scores.TextSet(texts=[SCORED])])),
    ("CompareTexts", scores.CompareTextsRequest(sets=[scores.TextSet(texts=[SCORED, TWICE_SCORED])])),
    ("CompareTexts", scores.CompareTextsRequest(sets=[scores.TextSet(texts=SET.texts, groups=[WORD, WORD])])),
    ("QueryFacts", facts.QueryFactsRequest(relations=[ABOUT])),
    ("QueryFacts", facts.QueryFactsRequest(relations=[ABOUT], facts=[KNOWN], max_pieces=3)),
    ("QueryFacts", facts.QueryFactsRequest(relations=[ABOUT, ABOUT], facts=[KNOWN])),
    ("QueryFacts", facts.QueryFactsRequest(relations=[facts.FactRelation(name=WORD)], facts=[KNOWN])),
    ("QueryFacts", facts.QueryFactsRequest(relations=[ABOUT], facts=[facts.Fact(subject=SAID, objects=[WORD])])),
    ("QueryFacts", facts.QueryFactsRequest(relations=[ABOUT], facts=[facts.Fact(subject=WORD, objects=[LONG.text])])),
    ("QueryFacts", facts.QueryFactsRequest(relations=[ABOUT], facts=[facts.Fact(relation=1, subject=WORD, objects=[WORD])])),
    ("QueryFacts", facts.QueryFactsRequest(relations=[ABOUT], facts=[KNOWN], scoring=facts.OBJECT_SCORING_CANDIDATES)),
    ("ExtractAttention", attention_pb2.ExtractAttentionRequest(inputs=[INPUT, LONG])),
    ("Inspect", inspection.InspectRequest(input=LONG)),
    ("Inspect", inspection.InspectRequest(input=INPUT, candidates=[WORD, WORD])),
    ("Inspect", inspection.InspectRequest(input=INPUT, maps=[inspection.MapView(pixels=129)])),
    ("ExtractHiddenStates", states.ExtractHiddenStatesRequest(inputs=[INPUT, LONG])),
    ("TrainCodes", codes.TrainCodesRequest(train=[INPUT], dev=[INPUT], codes=2, active=3)),
    ("TrainProbe", probes.TrainProbeRequest(train=[PROBED], dev=[PROBED], labels=[SAID, SAID])),
    ("TrainProbe", probes.TrainProbeRequest(train=[PROBED], dev=[PROBED])),
    ("TrainStructuralProbe", structural.TrainStructuralProbeRequest(train=[GROWN], quantity=9)),
    ("FindContexts", contexts.FindContextsRequest(texts=[contexts.ContextText(text=LINKED)])),
    ("FindContexts", contexts.FindContextsRequest(texts=[contexts.ContextText(text=LINKED)] * 2, heads=contexts.HeadUnits())),
    ("TrainEraser", erasers.TrainEraserRequest(train=[PROBED, PROBED], labels=[WORD, SAID], rank=2)),
    ("TrainLens", tuned.TrainLensRequest(train=[INPUT], dev=[INPUT], mask_rate=2)),
    ("TrainProbe", probes.TrainProbeRequest(train=[PROBED], dev=[PROBED], labels=[SAID], test=[PROBED])),
    ("ApplyProbe", application.ApplyProbeRequest(inputs=[CLASSIFIED], labels=[SAID, SAID])),
    ("ApplyProbe", application.ApplyProbeRequest(inputs=[CLASSIFIED], labels=[SAID])),
    (
        "ExtractHiddenStates",
        states.ExtractHiddenStatesRequest(inputs=[INPUT, LONG]),
    ),
    (
        "ExtractHiddenStates",
        states.ExtractHiddenStatesRequest(inputs=[INPUT], unit=states.STATE_UNIT_SPAN),
    ),
    ("EmbedTexts", states.EmbedTextsRequest(inputs=[INPUT, LONG])),
    ("ScoreFeatures", relations.ScoreFeaturesRequest(texts=[MARKED])),
    ("ScoreFeatures", relations.ScoreFeaturesRequest(texts=[MARKED], features=["[CLS]"], special_tokens=True)),
    ("ScoreRelations", relations.ScoreRelationsRequest(texts=[OVERLAPPING], relations=[WORD])),
    ("ScoreRelations", relations.ScoreRelationsRequest(texts=[LINKED], relations=[WORD, WORD])),
    ("CompareAttention", attention_statistics.CompareAttentionRequest(other_model="models/headless", inputs=[INPUT, LONG])),
    ("CompareAttention", attention_statistics.CompareAttentionRequest(inputs=[INPUT])),
    ("DescribeAttention", attention_statistics.DescribeAttentionRequest(inputs=[INPUT, LONG])),
    ("DescribeAttention", attention_statistics.DescribeAttentionRequest(inputs=[INPUT], punctuation=[WORD])),
    ("DescribeGeometry", geometry.DescribeGeometryRequest(inputs=[INPUT, LONG])),
    ("DescribeGeometry", geometry.DescribeGeometryRequest(inputs=[INPUT], words=[WORD, WORD])),
    ("CompareRepresentations", geometry.CompareRepresentationsRequest(inputs=[INPUT, LONG])),
    ("CompareRepresentations", geometry.CompareRepresentationsRequest(inputs=[INPUT], other_layers=[99])),
    ("ReadLayers", lens.ReadLayersRequest(inputs=[lens.LensInput(text=WORD)])),
    ("ReadLayers", lens.ReadLayersRequest(inputs=[LENS, lens.LensInput(text=SAID, spans=[SPANS[0], SPANS[0]])])),
    ("ReadLayers", lens.ReadLayersRequest(inputs=[LENS], candidates=["the", WORD])),
    ("ReadLayers", lens.ReadLayersRequest(inputs=[LENS], layers=[99])),
    ("AttributeLogits", lens.AttributeLogitsRequest(inputs=[TAKEN_APART, lens.AttributedInput(text=WORD)])),
    ("AttributeLogits", lens.AttributeLogitsRequest(inputs=[lens.AttributedInput(text=SAID, answer="the", other_answer=WORD)])),
    ("AttributeWords", attribution.AttributeWordsRequest(inputs=[EXPLAINED, attribution.AttributedText(text=SAID)])),
    ("AttributeWords", attribution.AttributeWordsRequest(inputs=[EXPLAINED], absent=attribution.ABSENT_TEXT_ZERO)),
    ("AttributeWords", attribution.AttributeWordsRequest(inputs=[EXPLAINED], site={"site": "SITE_ACTIVATIONS"}, unit=2)),
    (
        "AttributeWords",
        attribution.AttributeWordsRequest(inputs=[EXPLAINED], interactions=True, exact_units=1),
    ),
    ("Classify", classification_pb2.ClassifyRequest(inputs=[INPUT])),
    ("Classify", classification_pb2.ClassifyRequest(model="models/sorter", inputs=[LONG])),
    ("PredictValues", classification_pb2.PredictValuesRequest(inputs=[INPUT])),
    ("PredictValues", classification_pb2.PredictValuesRequest(model="models/rater", inputs=[LONG])),
    ("ClassifyTokens", classification_pb2.ClassifyTokensRequest(inputs=[TAGGED])),
    ("ClassifyTokens", classification_pb2.ClassifyTokensRequest(model="models/tagger", inputs=[TAGGED], top_k=99)),
    (
        "ClassifyTokens",
        classification_pb2.ClassifyTokensRequest(
            model="models/tagger", inputs=[TAGGED, classification_pb2.TaggedInput(input=LONG)]
        ),
    ),
    ("AnswerQuestions", answering.AnswerQuestionsRequest(inputs=[ASKED])),
    ("AnswerQuestions", answering.AnswerQuestionsRequest(model="models/answerer", inputs=[ASKED], stride=1000)),
    (
        "AnswerQuestions",
        answering.AnswerQuestionsRequest(
            model="models/answerer", inputs=[ASKED, answering.Question(question=LONG.text, passage=WORD)]
        ),
    ),
    ("SweepHeads", ablation_pb2.SweepHeadsRequest(objective=MASKLESS, mode=ZERO)),
    ("SweepHeads", ablation_pb2.SweepHeadsRequest(model="models/sorter", objective=MISLABELLED, mode=ZERO)),
    ("SweepSites", sites.SweepSitesRequest(pairs=[PATCHED, MISMATCHED], scopes=SITES)),
    ("SweepSites", sites.SweepSitesRequest(pairs=[PATCHED], scopes=SITES, change=site_pb2.SiteChange(scale=2.0))),
    ("SweepSites", sites.SweepSitesRequest(pairs=[PATCHED], scopes=SITES, paths=sites.PathScope())),
    ("RankHeads", ablation_pb2.RankHeadsRequest(objective=MASKLESS)),
    ("PruneHeads", ablation_pb2.PruneHeadsRequest(heads=HEADS, model_id="bert")),
    ("LoadModel", model_pb2.LoadModelRequest(model_id="spare", source="/nowhere")),
    ("CompressModel", model_pb2.CompressModelRequest(model_id="small", steps=[TOO_MANY_HEADS])),
    ("DistillModel", distillation_pb2.DistillModelRequest(model_id="student", folder="/nowhere/student", train=[LEARNED])),
    ("ListModels", model_pb2.ListModelsRequest(page_token=WORD)),
    ("GetModel", model_pb2.GetModelRequest(name="models/none")),
    ("UnloadModel", model_pb2.UnloadModelRequest(name="models/none")),
    ("BenchmarkModels", measure(measurement=benchmark_pb2.Measurement(texts=[LONG.text], **BRIEF))),
    ("BenchmarkModels", measure(measurement=benchmark_pb2.Measurement(**BRIEF), agreement_texts=[LONG.text])),
    ("BenchmarkModels", measure(measurement=benchmark_pb2.Measurement(**BRIEF), agreement_texts=[WORD, WORD], embed=True)),
    ("BenchmarkStudies", benchmark_pb2.BenchmarkStudiesRequest(measurement=benchmark_pb2.Measurement(texts=[WORD]))),
    ("ModelInfer", infer("bert", LONG.text)),
    ("ModelInfer", infer("sorter", "")),
    ("ModelMetadata", oip.ModelMetadataRequest(name="none")),
    ("ModelConfig", oip.ModelConfigRequest(name="none")),
]
