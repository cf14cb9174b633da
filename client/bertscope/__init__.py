"""Asks a bertscope server what BERT-family models know, which of their heads matter, and what compressing them costs.

>>> import bertscope
>>> with bertscope.Client("127.0.0.1:50051") as client:  # doctest: +SKIP
...     for answer in client.fill_mask(["Paris is the capital of [MASK]."], top_k=5):
...         print(answer.masks[0].predictions[0].token)

A name is imported when it is first used. Names of files, readers and plots are those of `bertscope_workbench`, which the extra
"workbench" installs.
"""

from typing import TYPE_CHECKING

from bertscope._version import __version__

# Generated from each module's __all__ by `make client`.
if TYPE_CHECKING:
    from bertscope_workbench.plots.alignment import plot_alignment as plot_alignment
    from bertscope_workbench.plots.alignment import save_alignment as save_alignment
    from bertscope_workbench.plots.attention import plot_attention as plot_attention
    from bertscope_workbench.plots.attention import save_attention as save_attention
    from bertscope_workbench.plots.attention_page import AttentionPage as AttentionPage
    from bertscope_workbench.plots.attention_page import attention_page as attention_page
    from bertscope_workbench.plots.attention_statistics import plot_description as plot_description
    from bertscope_workbench.plots.attention_statistics import save_description as save_description
    from bertscope_workbench.plots.attribution import plot_attribution as plot_attribution
    from bertscope_workbench.plots.attribution import save_attribution as save_attribution
    from bertscope_workbench.plots.benchmark import plot_benchmark as plot_benchmark
    from bertscope_workbench.plots.benchmark import save_benchmark as save_benchmark
    from bertscope_workbench.plots.code_length import plot_code_length as plot_code_length
    from bertscope_workbench.plots.code_length import save_code_length as save_code_length
    from bertscope_workbench.plots.comparison import plot_comparison as plot_comparison
    from bertscope_workbench.plots.comparison import save_comparison as save_comparison
    from bertscope_workbench.plots.facts import plot_facts as plot_facts
    from bertscope_workbench.plots.facts import save_facts as save_facts
    from bertscope_workbench.plots.geometry import plot_geometry as plot_geometry
    from bertscope_workbench.plots.geometry import save_geometry as save_geometry
    from bertscope_workbench.plots.inspection import plot_inspection as plot_inspection
    from bertscope_workbench.plots.inspection import save_inspection as save_inspection
    from bertscope_workbench.plots.lens import plot_lens as plot_lens
    from bertscope_workbench.plots.lens import save_lens as save_lens
    from bertscope_workbench.plots.probes import plot_probe as plot_probe
    from bertscope_workbench.plots.probes import plot_regression_probe as plot_regression_probe
    from bertscope_workbench.plots.probes import save_probe as save_probe
    from bertscope_workbench.plots.probes import save_regression_probe as save_regression_probe
    from bertscope_workbench.plots.relations import plot_features as plot_features
    from bertscope_workbench.plots.relations import plot_relations as plot_relations
    from bertscope_workbench.plots.relations import save_features as save_features
    from bertscope_workbench.plots.relations import save_relations as save_relations
    from bertscope_workbench.plots.representation_comparison import plot_representations as plot_representations
    from bertscope_workbench.plots.representation_comparison import save_representations as save_representations
    from bertscope_workbench.plots.retrieval import plot_retrieval as plot_retrieval
    from bertscope_workbench.plots.retrieval import save_retrieval as save_retrieval
    from bertscope_workbench.plots.scores import plot_surprisal as plot_surprisal
    from bertscope_workbench.plots.scores import save_surprisal as save_surprisal
    from bertscope_workbench.plots.structural_probes import plot_structural_probe as plot_structural_probe
    from bertscope_workbench.plots.structural_probes import save_structural_probe as save_structural_probe
    from bertscope_workbench.plots.substitutions import plot_substitutions as plot_substitutions
    from bertscope_workbench.plots.substitutions import save_substitutions as save_substitutions
    from bertscope_workbench.plots.sweeps import plot_ranking as plot_ranking
    from bertscope_workbench.plots.sweeps import plot_sweep as plot_sweep
    from bertscope_workbench.plots.sweeps import save_ranking as save_ranking
    from bertscope_workbench.plots.sweeps import save_sweep as save_sweep
    from bertscope_workbench.plots.text_sets import plot_accuracy as plot_accuracy
    from bertscope_workbench.plots.text_sets import save_accuracy as save_accuracy
    from bertscope_workbench.plots.traces import plot_trace as plot_trace
    from bertscope_workbench.plots.traces import save_trace as save_trace
    from bertscope_workbench.plots.trees import plot_trees as plot_trees
    from bertscope_workbench.plots.trees import save_trees as save_trees
    from bertscope_workbench.plots.word_attribution import plot_word_attribution as plot_word_attribution
    from bertscope_workbench.plots.word_attribution import save_word_attribution as save_word_attribution
    from bertscope_workbench.readers.answer_rows import read_fact_rows as read_fact_rows
    from bertscope_workbench.readers.answer_rows import read_pair_rows as read_pair_rows
    from bertscope_workbench.readers.embedded_codes import embedded_codes as embedded_codes
    from bertscope_workbench.readers.fact_files import read_facts as read_facts
    from bertscope_workbench.readers.fact_files import read_templates as read_templates
    from bertscope_workbench.readers.fact_files import read_words as read_words
    from bertscope_workbench.readers.files import INPUTS as INPUTS
    from bertscope_workbench.readers.files import LABEL_SETS as LABEL_SETS
    from bertscope_workbench.readers.files import LABELLED as LABELLED
    from bertscope_workbench.readers.files import PAIRS as PAIRS
    from bertscope_workbench.readers.files import PROMPTS as PROMPTS
    from bertscope_workbench.readers.files import QUESTIONS as QUESTIONS
    from bertscope_workbench.readers.files import RATED as RATED
    from bertscope_workbench.readers.files import SIMILAR as SIMILAR
    from bertscope_workbench.readers.files import TEXTS as TEXTS
    from bertscope_workbench.readers.files import ItemKind as ItemKind
    from bertscope_workbench.readers.files import read_answered as read_answered
    from bertscope_workbench.readers.files import read_inputs as read_inputs
    from bertscope_workbench.readers.files import read_label_sets as read_label_sets
    from bertscope_workbench.readers.files import read_labelled as read_labelled
    from bertscope_workbench.readers.files import read_pairs as read_pairs
    from bertscope_workbench.readers.files import read_prompts as read_prompts
    from bertscope_workbench.readers.files import read_questions as read_questions
    from bertscope_workbench.readers.files import read_rated as read_rated
    from bertscope_workbench.readers.files import read_similar as read_similar
    from bertscope_workbench.readers.files import read_texts as read_texts
    from bertscope_workbench.readers.items.run import RowsProgress as RowsProgress
    from bertscope_workbench.readers.items.run import WrittenItems as WrittenItems
    from bertscope_workbench.readers.items.run import write_items as write_items
    from bertscope_workbench.readers.items.sources import Item as Item
    from bertscope_workbench.readers.items.sources import ItemFile as ItemFile
    from bertscope_workbench.readers.set_files import read_sets as read_sets
    from bertscope_workbench.readers.span_files import SpanTexts as SpanTexts
    from bertscope_workbench.readers.span_files import ValuedTexts as ValuedTexts
    from bertscope_workbench.readers.span_files import read_feature_texts as read_feature_texts
    from bertscope_workbench.readers.span_files import read_probe_texts as read_probe_texts
    from bertscope_workbench.readers.span_files import read_relation_texts as read_relation_texts
    from bertscope_workbench.readers.span_files import read_span_texts as read_span_texts
    from bertscope_workbench.readers.span_files import read_valued_texts as read_valued_texts
    from bertscope_workbench.readers.state_files import WrittenStates as WrittenStates
    from bertscope_workbench.readers.state_files import write_states as write_states
    from bertscope_workbench.readers.translation_files import read_gold_alignments as read_gold_alignments
    from bertscope_workbench.readers.translation_files import read_translations as read_translations
    from bertscope_workbench.readers.treebanks import ConlluLabel as ConlluLabel
    from bertscope_workbench.readers.treebanks import ProbeTexts as ProbeTexts
    from bertscope_workbench.readers.treebanks import TreeTexts as TreeTexts
    from bertscope_workbench.readers.treebanks import read_conllu as read_conllu
    from bertscope_workbench.readers.treebanks import read_conllu_features as read_conllu_features
    from bertscope_workbench.readers.treebanks import read_probe_conllu as read_probe_conllu
    from bertscope_workbench.readers.treebanks import read_propbank as read_propbank
    from bertscope_workbench.readers.treebanks import read_tree_conllu as read_tree_conllu

    from bertscope.aio import AsyncClient
    from bertscope.client import Client
    from bertscope.client.ablation import HeadSweep
    from bertscope.client.ablation_trace import SiteSweep
    from bertscope.client.benchmark import StudyBenchmark
    from bertscope.client.inspection import InspectionStream
    from bertscope.errors import (
        AlreadyExists,
        BertscopeError,
        Cancelled,
        DeadlineExceeded,
        FailedPrecondition,
        FieldViolation,
        InternalError,
        InvalidArgument,
        InvalidReply,
        NotFound,
        PermissionDenied,
        ResourceExhausted,
        Unauthenticated,
        Unavailable,
        Unimplemented,
    )
    from bertscope.questions.ablation.calls import AsyncHeadSweep
    from bertscope.questions.ablation.effects import CurvePoint, HeadEffect, MetricEffect
    from bertscope.questions.ablation.objectives import ClozePrompts, Divergence, Greedy, MaskedLmLoss, MinimalPairs
    from bertscope.questions.ablation.ranking import HeadRanking
    from bertscope.questions.ablation.site_effects import PathReceiver, SiteEffect
    from bertscope.questions.ablation.sweeps import Bootstrap, SweepStart, SweepSummary, SweepTable
    from bertscope.questions.ablation.task_objectives import (
        LabelledQuestions,
        LabelledTexts,
        LabelledWords,
        LabelSets,
        RatedTexts,
        SimilarTexts,
    )
    from bertscope.questions.ablation.trace_calls import AsyncSiteSweep
    from bertscope.questions.ablation.traced_pairs import MaskedWords, NoisyWords
    from bertscope.questions.ablation.traced_values import PairValues, SiteSweepStart
    from bertscope.questions.ablation.traces import Trace
    from bertscope.questions.attention.best_heads import BestHead, BestHeads
    from bertscope.questions.attention.comparison import AttentionComparison
    from bertscope.questions.attention.contacts import ContactScores, contact_relations, read_contacts
    from bertscope.questions.attention.description import AttentionDescription, PatternSums
    from bertscope.questions.attention.feature_scores import FeatureScore, FeatureScores
    from bertscope.questions.attention.head_distances import HeadDistances
    from bertscope.questions.attention.maps import AttentionMaps
    from bertscope.questions.attention.marked_texts import FeatureText, RelationText
    from bertscope.questions.attention.relation_scores import DirectedSums, RelationScore, RelationScores
    from bertscope.questions.attention.selection import Direction, TextScore
    from bertscope.questions.attention.sums import HeadSums
    from bertscope.questions.attention.trees import TreeScores
    from bertscope.questions.attribution.neurons import AttributedUnit, NeuronAttribution, NeuronAttributions
    from bertscope.questions.attribution.words import WordAttribution, WordAttributions
    from bertscope.questions.benchmark.calls import AsyncStudyBenchmark
    from bertscope.questions.benchmark.reports import (
        Agreement,
        BenchmarkProgress,
        BenchmarkReport,
        Disturbances,
        Machine,
        ModelReport,
        Ratio,
        Score,
        Speed,
        VectorAgreement,
    )
    from bertscope.questions.benchmark.studies import Published, StudiesSummary, StudyRow, StudyTable
    from bertscope.questions.cloze.answers import FilledText, FilledTexts
    from bertscope.questions.cloze.fillings import FilledSpan, Filling
    from bertscope.questions.cloze.substitutions import AMINO_ACIDS, Substitutions
    from bertscope.questions.compression.messages import CompressionProgress
    from bertscope.questions.compression.steps import (
        eliminate_tokens,
        half,
        int8,
        keep_layers,
        magnitude,
        onnx,
        reduce_vocabulary,
        remove_feed_forward,
        remove_heads,
        untrained,
        weight_only,
    )
    from bertscope.questions.distillation.results import (
        DistillationPart,
        DistillationProgress,
        DistillationScores,
        DistilledModel,
        Recovery,
    )
    from bertscope.questions.facts.answers import FactAnswer, FactPrediction, FactResult
    from bertscope.questions.facts.knowledge import FactAnswers
    from bertscope.questions.facts.metrics import FactScores, RelationKnowledge, Share
    from bertscope.questions.facts.questions import Fact, FactRelation, FactTemplate
    from bertscope.questions.inspection.calls import AsyncInspectionStream
    from bertscope.questions.inspection.results import (
        InspectedMaps,
        Inspection,
        InspectionDistances,
        InspectionStart,
        ViewedMaps,
    )
    from bertscope.questions.inspection.views import MapView
    from bertscope.questions.labels.answers import AnsweredQuestion, AnsweredQuestions, AnswerSpan
    from bertscope.questions.labels.classification import ClassifiedText, ClassifiedTexts, LabelPrediction
    from bertscope.questions.labels.regression import PredictedValue, PredictedValues, RankedCandidate, RankedCandidates
    from bertscope.questions.labels.token_classification import Mention, TaggedText, TaggedTexts, TaggedWord
    from bertscope.questions.models.models import LoadProgress, Models
    from bertscope.questions.probes.applied_probes import AppliedLayer, AppliedProbe, ProbedSpan
    from bertscope.questions.probes.code_length import CodeLengthProgress, CodeLengths, LayerCode
    from bertscope.questions.probes.erasers import Eraser, EraserMethod, LayerEraser, LinearEraser
    from bertscope.questions.probes.kept_probes import KeptProbe, load_probe
    from bertscope.questions.probes.layer_mix import CumulativeProbe, LayerMix
    from bertscope.questions.probes.probes import LayerProbe, Pooling, ProbeEnding, ProbePart, ProbeProgress, ProbeResult
    from bertscope.questions.probes.regression import LayerRegression, RegressionResult
    from bertscope.questions.probes.structural_probes import (
        LayerStructuralProbe,
        StructuralProbeProgress,
        StructuralProbeResult,
        TreePart,
    )
    from bertscope.questions.probes.tree_texts import TreeText, TreeWord
    from bertscope.questions.representations.alignment import (
        AlignedWords,
        AlignmentScores,
        GoldAlignment,
        WordAlignment,
        WordLink,
        score_alignments,
    )
    from bertscope.questions.representations.attribution import LogitAttribution, LogitAttributions
    from bertscope.questions.representations.codes import CodesFit, CodesLosses, SparseCodes, TrainCodesProgress
    from bertscope.questions.representations.comparison import RepresentationComparison
    from bertscope.questions.representations.context_requests import NearestTo
    from bertscope.questions.representations.context_tags import TagCount, TagCounts, count_tags
    from bertscope.questions.representations.contexts import Contexts, ContextUnit, Place, UnitContexts
    from bertscope.questions.representations.embeddings import EmbeddedText, EmbeddedTexts
    from bertscope.questions.representations.geometry import GeometryDescription
    from bertscope.questions.representations.kept_contexts import load_contexts, save_contexts
    from bertscope.questions.representations.lens import EntryScore, LayerReading, LensInput, LensPosition, LensText, LensTexts
    from bertscope.questions.representations.neighbours import Neighbour, Neighbourhoods, Occurrence, WordNeighbours
    from bertscope.questions.representations.retrieval import RetrievedSentences
    from bertscope.questions.representations.states import HiddenStates, StatesInput
    from bertscope.questions.representations.tuned_lens import LayerFit, TrainLensProgress, TunedLens, load_lens
    from bertscope.questions.representations.variances import ExplainableVariance, WordVariance
    from bertscope.questions.scores.comparison import ComparedSet, GroupAccuracy, GroupDifference, TextComparison
    from bertscope.questions.scores.inputs import ScoredInput, conditional
    from bertscope.questions.scores.sets import TextSet
    from bertscope.questions.scores.texts import ScoredPiece, ScoredText, ScoredTexts, ScoredWord
    from bertscope.rpc.credentials import Tls
    from bertscope.rpc.health import Health
    from bertscope.rpc.retries import Retries
    from bertscope.values.changes import SiteIntervention
    from bertscope.values.choices import (
        AbsentText,
        AttributionMethod,
        AttributionUnit,
        DataType,
        Decoding,
        LensNormalisation,
        MapFormat,
        Metric,
        Mode,
        ObjectScoring,
        Order,
        Others,
        PatchDirection,
        Picture,
        PositionKind,
        PositionScope,
        Precision,
        Quantity,
        Runtime,
        Scope,
        Scoring,
        Site,
        StateLoss,
        StatePooling,
        StateQuantity,
        StateUnit,
        TargetScale,
        TemplateChoice,
    )
    from bertscope.values.directions import SiteDirection
    from bertscope.values.intervals import Interval
    from bertscope.values.interventions import HeadIntervention, mean, scale, uniform, zero
    from bertscope.values.labelled_texts import ProbeText, UnlabelledText, ValuedText
    from bertscope.values.mask_predictions import FilledMask, Prediction
    from bertscope.values.models import Model, RuntimeChoice, RuntimeTimes
    from bertscope.values.results import AppliedStep, Provenance, TextsProgress, Token
    from bertscope.values.score_targets import Answer, NextSentence, PassageAnswer, SimilarTo, TextLabel, TextValue, WordLabel
    from bertscope.values.site_changes import add, block_attention, erase, mean_site, patch, scale_site, set_site
    from bertscope.values.spans import Span

_PLACES = {
    "AMINO_ACIDS": "bertscope.questions.cloze.substitutions",
    "AbsentText": "bertscope.values.choices",
    "Agreement": "bertscope.questions.benchmark.reports",
    "AlignedWords": "bertscope.questions.representations.alignment",
    "AlignmentScores": "bertscope.questions.representations.alignment",
    "AlreadyExists": "bertscope.errors",
    "Answer": "bertscope.values.score_targets",
    "AnswerSpan": "bertscope.questions.labels.answers",
    "AnsweredQuestion": "bertscope.questions.labels.answers",
    "AnsweredQuestions": "bertscope.questions.labels.answers",
    "AppliedLayer": "bertscope.questions.probes.applied_probes",
    "AppliedProbe": "bertscope.questions.probes.applied_probes",
    "AppliedStep": "bertscope.values.results",
    "AsyncClient": "bertscope.aio",
    "AsyncHeadSweep": "bertscope.questions.ablation.calls",
    "AsyncInspectionStream": "bertscope.questions.inspection.calls",
    "AsyncSiteSweep": "bertscope.questions.ablation.trace_calls",
    "AsyncStudyBenchmark": "bertscope.questions.benchmark.calls",
    "AttentionComparison": "bertscope.questions.attention.comparison",
    "AttentionDescription": "bertscope.questions.attention.description",
    "AttentionMaps": "bertscope.questions.attention.maps",
    "AttributedUnit": "bertscope.questions.attribution.neurons",
    "AttributionMethod": "bertscope.values.choices",
    "AttributionUnit": "bertscope.values.choices",
    "BenchmarkProgress": "bertscope.questions.benchmark.reports",
    "BenchmarkReport": "bertscope.questions.benchmark.reports",
    "BertscopeError": "bertscope.errors",
    "BestHead": "bertscope.questions.attention.best_heads",
    "BestHeads": "bertscope.questions.attention.best_heads",
    "Bootstrap": "bertscope.questions.ablation.sweeps",
    "Cancelled": "bertscope.errors",
    "ClassifiedText": "bertscope.questions.labels.classification",
    "ClassifiedTexts": "bertscope.questions.labels.classification",
    "Client": "bertscope.client",
    "ClozePrompts": "bertscope.questions.ablation.objectives",
    "CodeLengthProgress": "bertscope.questions.probes.code_length",
    "CodeLengths": "bertscope.questions.probes.code_length",
    "CodesFit": "bertscope.questions.representations.codes",
    "CodesLosses": "bertscope.questions.representations.codes",
    "ComparedSet": "bertscope.questions.scores.comparison",
    "CompressionProgress": "bertscope.questions.compression.messages",
    "ContactScores": "bertscope.questions.attention.contacts",
    "ContextUnit": "bertscope.questions.representations.contexts",
    "Contexts": "bertscope.questions.representations.contexts",
    "CumulativeProbe": "bertscope.questions.probes.layer_mix",
    "CurvePoint": "bertscope.questions.ablation.effects",
    "DataType": "bertscope.values.choices",
    "DeadlineExceeded": "bertscope.errors",
    "Decoding": "bertscope.values.choices",
    "DirectedSums": "bertscope.questions.attention.relation_scores",
    "Direction": "bertscope.questions.attention.selection",
    "DistillationPart": "bertscope.questions.distillation.results",
    "DistillationProgress": "bertscope.questions.distillation.results",
    "DistillationScores": "bertscope.questions.distillation.results",
    "DistilledModel": "bertscope.questions.distillation.results",
    "Disturbances": "bertscope.questions.benchmark.reports",
    "Divergence": "bertscope.questions.ablation.objectives",
    "EmbeddedText": "bertscope.questions.representations.embeddings",
    "EmbeddedTexts": "bertscope.questions.representations.embeddings",
    "EntryScore": "bertscope.questions.representations.lens",
    "Eraser": "bertscope.questions.probes.erasers",
    "EraserMethod": "bertscope.questions.probes.erasers",
    "ExplainableVariance": "bertscope.questions.representations.variances",
    "Fact": "bertscope.questions.facts.questions",
    "FactAnswer": "bertscope.questions.facts.answers",
    "FactAnswers": "bertscope.questions.facts.knowledge",
    "FactPrediction": "bertscope.questions.facts.answers",
    "FactRelation": "bertscope.questions.facts.questions",
    "FactResult": "bertscope.questions.facts.answers",
    "FactScores": "bertscope.questions.facts.metrics",
    "FactTemplate": "bertscope.questions.facts.questions",
    "FailedPrecondition": "bertscope.errors",
    "FeatureScore": "bertscope.questions.attention.feature_scores",
    "FeatureScores": "bertscope.questions.attention.feature_scores",
    "FeatureText": "bertscope.questions.attention.marked_texts",
    "FieldViolation": "bertscope.errors",
    "FilledMask": "bertscope.values.mask_predictions",
    "FilledSpan": "bertscope.questions.cloze.fillings",
    "FilledText": "bertscope.questions.cloze.answers",
    "FilledTexts": "bertscope.questions.cloze.answers",
    "Filling": "bertscope.questions.cloze.fillings",
    "GeometryDescription": "bertscope.questions.representations.geometry",
    "GoldAlignment": "bertscope.questions.representations.alignment",
    "Greedy": "bertscope.questions.ablation.objectives",
    "GroupAccuracy": "bertscope.questions.scores.comparison",
    "GroupDifference": "bertscope.questions.scores.comparison",
    "HeadDistances": "bertscope.questions.attention.head_distances",
    "HeadEffect": "bertscope.questions.ablation.effects",
    "HeadIntervention": "bertscope.values.interventions",
    "HeadRanking": "bertscope.questions.ablation.ranking",
    "HeadSums": "bertscope.questions.attention.sums",
    "HeadSweep": "bertscope.client.ablation",
    "Health": "bertscope.rpc.health",
    "HiddenStates": "bertscope.questions.representations.states",
    "InspectedMaps": "bertscope.questions.inspection.results",
    "Inspection": "bertscope.questions.inspection.results",
    "InspectionDistances": "bertscope.questions.inspection.results",
    "InspectionStart": "bertscope.questions.inspection.results",
    "InspectionStream": "bertscope.client.inspection",
    "InternalError": "bertscope.errors",
    "Interval": "bertscope.values.intervals",
    "InvalidArgument": "bertscope.errors",
    "InvalidReply": "bertscope.errors",
    "KeptProbe": "bertscope.questions.probes.kept_probes",
    "LabelPrediction": "bertscope.questions.labels.classification",
    "LabelSets": "bertscope.questions.ablation.task_objectives",
    "LabelledQuestions": "bertscope.questions.ablation.task_objectives",
    "LabelledTexts": "bertscope.questions.ablation.task_objectives",
    "LabelledWords": "bertscope.questions.ablation.task_objectives",
    "LayerCode": "bertscope.questions.probes.code_length",
    "LayerEraser": "bertscope.questions.probes.erasers",
    "LayerFit": "bertscope.questions.representations.tuned_lens",
    "LayerMix": "bertscope.questions.probes.layer_mix",
    "LayerProbe": "bertscope.questions.probes.probes",
    "LayerReading": "bertscope.questions.representations.lens",
    "LayerRegression": "bertscope.questions.probes.regression",
    "LayerStructuralProbe": "bertscope.questions.probes.structural_probes",
    "LensInput": "bertscope.questions.representations.lens",
    "LensNormalisation": "bertscope.values.choices",
    "LensPosition": "bertscope.questions.representations.lens",
    "LensText": "bertscope.questions.representations.lens",
    "LensTexts": "bertscope.questions.representations.lens",
    "LinearEraser": "bertscope.questions.probes.erasers",
    "LoadProgress": "bertscope.questions.models.models",
    "LogitAttribution": "bertscope.questions.representations.attribution",
    "LogitAttributions": "bertscope.questions.representations.attribution",
    "Machine": "bertscope.questions.benchmark.reports",
    "MapFormat": "bertscope.values.choices",
    "MapView": "bertscope.questions.inspection.views",
    "MaskedLmLoss": "bertscope.questions.ablation.objectives",
    "MaskedWords": "bertscope.questions.ablation.traced_pairs",
    "Mention": "bertscope.questions.labels.token_classification",
    "Metric": "bertscope.values.choices",
    "MetricEffect": "bertscope.questions.ablation.effects",
    "MinimalPairs": "bertscope.questions.ablation.objectives",
    "Mode": "bertscope.values.choices",
    "Model": "bertscope.values.models",
    "ModelReport": "bertscope.questions.benchmark.reports",
    "Models": "bertscope.questions.models.models",
    "NearestTo": "bertscope.questions.representations.context_requests",
    "Neighbour": "bertscope.questions.representations.neighbours",
    "Neighbourhoods": "bertscope.questions.representations.neighbours",
    "NeuronAttribution": "bertscope.questions.attribution.neurons",
    "NeuronAttributions": "bertscope.questions.attribution.neurons",
    "NextSentence": "bertscope.values.score_targets",
    "NoisyWords": "bertscope.questions.ablation.traced_pairs",
    "NotFound": "bertscope.errors",
    "ObjectScoring": "bertscope.values.choices",
    "Occurrence": "bertscope.questions.representations.neighbours",
    "Order": "bertscope.values.choices",
    "Others": "bertscope.values.choices",
    "PairValues": "bertscope.questions.ablation.traced_values",
    "PassageAnswer": "bertscope.values.score_targets",
    "PatchDirection": "bertscope.values.choices",
    "PathReceiver": "bertscope.questions.ablation.site_effects",
    "PatternSums": "bertscope.questions.attention.description",
    "PermissionDenied": "bertscope.errors",
    "Picture": "bertscope.values.choices",
    "Place": "bertscope.questions.representations.contexts",
    "Pooling": "bertscope.questions.probes.probes",
    "PositionKind": "bertscope.values.choices",
    "PositionScope": "bertscope.values.choices",
    "Precision": "bertscope.values.choices",
    "PredictedValue": "bertscope.questions.labels.regression",
    "PredictedValues": "bertscope.questions.labels.regression",
    "Prediction": "bertscope.values.mask_predictions",
    "ProbeEnding": "bertscope.questions.probes.probes",
    "ProbePart": "bertscope.questions.probes.probes",
    "ProbeProgress": "bertscope.questions.probes.probes",
    "ProbeResult": "bertscope.questions.probes.probes",
    "ProbeText": "bertscope.values.labelled_texts",
    "ProbedSpan": "bertscope.questions.probes.applied_probes",
    "Provenance": "bertscope.values.results",
    "Published": "bertscope.questions.benchmark.studies",
    "Quantity": "bertscope.values.choices",
    "RankedCandidate": "bertscope.questions.labels.regression",
    "RankedCandidates": "bertscope.questions.labels.regression",
    "RatedTexts": "bertscope.questions.ablation.task_objectives",
    "Ratio": "bertscope.questions.benchmark.reports",
    "Recovery": "bertscope.questions.distillation.results",
    "RegressionResult": "bertscope.questions.probes.regression",
    "RelationKnowledge": "bertscope.questions.facts.metrics",
    "RelationScore": "bertscope.questions.attention.relation_scores",
    "RelationScores": "bertscope.questions.attention.relation_scores",
    "RelationText": "bertscope.questions.attention.marked_texts",
    "RepresentationComparison": "bertscope.questions.representations.comparison",
    "ResourceExhausted": "bertscope.errors",
    "Retries": "bertscope.rpc.retries",
    "RetrievedSentences": "bertscope.questions.representations.retrieval",
    "Runtime": "bertscope.values.choices",
    "RuntimeChoice": "bertscope.values.models",
    "RuntimeTimes": "bertscope.values.models",
    "Scope": "bertscope.values.choices",
    "Score": "bertscope.questions.benchmark.reports",
    "ScoredInput": "bertscope.questions.scores.inputs",
    "ScoredPiece": "bertscope.questions.scores.texts",
    "ScoredText": "bertscope.questions.scores.texts",
    "ScoredTexts": "bertscope.questions.scores.texts",
    "ScoredWord": "bertscope.questions.scores.texts",
    "Scoring": "bertscope.values.choices",
    "Share": "bertscope.questions.facts.metrics",
    "SimilarTexts": "bertscope.questions.ablation.task_objectives",
    "SimilarTo": "bertscope.values.score_targets",
    "Site": "bertscope.values.choices",
    "SiteDirection": "bertscope.values.directions",
    "SiteEffect": "bertscope.questions.ablation.site_effects",
    "SiteIntervention": "bertscope.values.changes",
    "SiteSweep": "bertscope.client.ablation_trace",
    "SiteSweepStart": "bertscope.questions.ablation.traced_values",
    "Span": "bertscope.values.spans",
    "SparseCodes": "bertscope.questions.representations.codes",
    "Speed": "bertscope.questions.benchmark.reports",
    "StateLoss": "bertscope.values.choices",
    "StatePooling": "bertscope.values.choices",
    "StateQuantity": "bertscope.values.choices",
    "StateUnit": "bertscope.values.choices",
    "StatesInput": "bertscope.questions.representations.states",
    "StructuralProbeProgress": "bertscope.questions.probes.structural_probes",
    "StructuralProbeResult": "bertscope.questions.probes.structural_probes",
    "StudiesSummary": "bertscope.questions.benchmark.studies",
    "StudyBenchmark": "bertscope.client.benchmark",
    "StudyRow": "bertscope.questions.benchmark.studies",
    "StudyTable": "bertscope.questions.benchmark.studies",
    "Substitutions": "bertscope.questions.cloze.substitutions",
    "SweepStart": "bertscope.questions.ablation.sweeps",
    "SweepSummary": "bertscope.questions.ablation.sweeps",
    "SweepTable": "bertscope.questions.ablation.sweeps",
    "TagCount": "bertscope.questions.representations.context_tags",
    "TagCounts": "bertscope.questions.representations.context_tags",
    "TaggedText": "bertscope.questions.labels.token_classification",
    "TaggedTexts": "bertscope.questions.labels.token_classification",
    "TaggedWord": "bertscope.questions.labels.token_classification",
    "TargetScale": "bertscope.values.choices",
    "TemplateChoice": "bertscope.values.choices",
    "TextComparison": "bertscope.questions.scores.comparison",
    "TextLabel": "bertscope.values.score_targets",
    "TextScore": "bertscope.questions.attention.selection",
    "TextSet": "bertscope.questions.scores.sets",
    "TextValue": "bertscope.values.score_targets",
    "TextsProgress": "bertscope.values.results",
    "Tls": "bertscope.rpc.credentials",
    "Token": "bertscope.values.results",
    "Trace": "bertscope.questions.ablation.traces",
    "TrainCodesProgress": "bertscope.questions.representations.codes",
    "TrainLensProgress": "bertscope.questions.representations.tuned_lens",
    "TreePart": "bertscope.questions.probes.structural_probes",
    "TreeScores": "bertscope.questions.attention.trees",
    "TreeText": "bertscope.questions.probes.tree_texts",
    "TreeWord": "bertscope.questions.probes.tree_texts",
    "TunedLens": "bertscope.questions.representations.tuned_lens",
    "Unauthenticated": "bertscope.errors",
    "Unavailable": "bertscope.errors",
    "Unimplemented": "bertscope.errors",
    "UnitContexts": "bertscope.questions.representations.contexts",
    "UnlabelledText": "bertscope.values.labelled_texts",
    "ValuedText": "bertscope.values.labelled_texts",
    "VectorAgreement": "bertscope.questions.benchmark.reports",
    "ViewedMaps": "bertscope.questions.inspection.results",
    "WordAlignment": "bertscope.questions.representations.alignment",
    "WordAttribution": "bertscope.questions.attribution.words",
    "WordAttributions": "bertscope.questions.attribution.words",
    "WordLabel": "bertscope.values.score_targets",
    "WordLink": "bertscope.questions.representations.alignment",
    "WordNeighbours": "bertscope.questions.representations.neighbours",
    "WordVariance": "bertscope.questions.representations.variances",
    "add": "bertscope.values.site_changes",
    "block_attention": "bertscope.values.site_changes",
    "conditional": "bertscope.questions.scores.inputs",
    "contact_relations": "bertscope.questions.attention.contacts",
    "count_tags": "bertscope.questions.representations.context_tags",
    "eliminate_tokens": "bertscope.questions.compression.steps",
    "erase": "bertscope.values.site_changes",
    "half": "bertscope.questions.compression.steps",
    "int8": "bertscope.questions.compression.steps",
    "keep_layers": "bertscope.questions.compression.steps",
    "load_contexts": "bertscope.questions.representations.kept_contexts",
    "load_lens": "bertscope.questions.representations.tuned_lens",
    "load_probe": "bertscope.questions.probes.kept_probes",
    "magnitude": "bertscope.questions.compression.steps",
    "mean": "bertscope.values.interventions",
    "mean_site": "bertscope.values.site_changes",
    "onnx": "bertscope.questions.compression.steps",
    "patch": "bertscope.values.site_changes",
    "read_contacts": "bertscope.questions.attention.contacts",
    "reduce_vocabulary": "bertscope.questions.compression.steps",
    "remove_feed_forward": "bertscope.questions.compression.steps",
    "remove_heads": "bertscope.questions.compression.steps",
    "save_contexts": "bertscope.questions.representations.kept_contexts",
    "scale": "bertscope.values.interventions",
    "scale_site": "bertscope.values.site_changes",
    "score_alignments": "bertscope.questions.representations.alignment",
    "set_site": "bertscope.values.site_changes",
    "uniform": "bertscope.values.interventions",
    "untrained": "bertscope.questions.compression.steps",
    "weight_only": "bertscope.questions.compression.steps",
    "zero": "bertscope.values.interventions",
}
_WORKBENCH = {
    "AttentionPage",
    "ConlluLabel",
    "INPUTS",
    "Item",
    "ItemFile",
    "ItemKind",
    "LABELLED",
    "LABEL_SETS",
    "PAIRS",
    "PROMPTS",
    "ProbeTexts",
    "QUESTIONS",
    "RATED",
    "RowsProgress",
    "SIMILAR",
    "SpanTexts",
    "TEXTS",
    "TreeTexts",
    "ValuedTexts",
    "WrittenItems",
    "WrittenStates",
    "attention_page",
    "embedded_codes",
    "plot_accuracy",
    "plot_alignment",
    "plot_attention",
    "plot_attribution",
    "plot_benchmark",
    "plot_code_length",
    "plot_comparison",
    "plot_description",
    "plot_facts",
    "plot_features",
    "plot_geometry",
    "plot_inspection",
    "plot_lens",
    "plot_probe",
    "plot_ranking",
    "plot_regression_probe",
    "plot_relations",
    "plot_representations",
    "plot_retrieval",
    "plot_structural_probe",
    "plot_substitutions",
    "plot_surprisal",
    "plot_sweep",
    "plot_trace",
    "plot_trees",
    "plot_word_attribution",
    "read_answered",
    "read_conllu",
    "read_conllu_features",
    "read_fact_rows",
    "read_facts",
    "read_feature_texts",
    "read_gold_alignments",
    "read_inputs",
    "read_label_sets",
    "read_labelled",
    "read_pair_rows",
    "read_pairs",
    "read_probe_conllu",
    "read_probe_texts",
    "read_prompts",
    "read_propbank",
    "read_questions",
    "read_rated",
    "read_relation_texts",
    "read_sets",
    "read_similar",
    "read_span_texts",
    "read_templates",
    "read_texts",
    "read_translations",
    "read_tree_conllu",
    "read_valued_texts",
    "read_words",
    "save_accuracy",
    "save_alignment",
    "save_attention",
    "save_attribution",
    "save_benchmark",
    "save_code_length",
    "save_comparison",
    "save_description",
    "save_facts",
    "save_features",
    "save_geometry",
    "save_inspection",
    "save_lens",
    "save_probe",
    "save_ranking",
    "save_regression_probe",
    "save_relations",
    "save_representations",
    "save_retrieval",
    "save_structural_probe",
    "save_substitutions",
    "save_surprisal",
    "save_sweep",
    "save_trace",
    "save_trees",
    "save_word_attribution",
    "write_items",
    "write_states",
}
__all__ = [
    "AMINO_ACIDS",
    "AbsentText",
    "Agreement",
    "AlignedWords",
    "AlignmentScores",
    "AlreadyExists",
    "Answer",
    "AnswerSpan",
    "AnsweredQuestion",
    "AnsweredQuestions",
    "AppliedLayer",
    "AppliedProbe",
    "AppliedStep",
    "AsyncClient",
    "AsyncHeadSweep",
    "AsyncInspectionStream",
    "AsyncSiteSweep",
    "AsyncStudyBenchmark",
    "AttentionComparison",
    "AttentionDescription",
    "AttentionMaps",
    "AttributedUnit",
    "AttributionMethod",
    "AttributionUnit",
    "BenchmarkProgress",
    "BenchmarkReport",
    "BertscopeError",
    "BestHead",
    "BestHeads",
    "Bootstrap",
    "Cancelled",
    "ClassifiedText",
    "ClassifiedTexts",
    "Client",
    "ClozePrompts",
    "CodeLengthProgress",
    "CodeLengths",
    "CodesFit",
    "CodesLosses",
    "ComparedSet",
    "CompressionProgress",
    "ContactScores",
    "ContextUnit",
    "Contexts",
    "CumulativeProbe",
    "CurvePoint",
    "DataType",
    "DeadlineExceeded",
    "Decoding",
    "DirectedSums",
    "Direction",
    "DistillationPart",
    "DistillationProgress",
    "DistillationScores",
    "DistilledModel",
    "Disturbances",
    "Divergence",
    "EmbeddedText",
    "EmbeddedTexts",
    "EntryScore",
    "Eraser",
    "EraserMethod",
    "ExplainableVariance",
    "Fact",
    "FactAnswer",
    "FactAnswers",
    "FactPrediction",
    "FactRelation",
    "FactResult",
    "FactScores",
    "FactTemplate",
    "FailedPrecondition",
    "FeatureScore",
    "FeatureScores",
    "FeatureText",
    "FieldViolation",
    "FilledMask",
    "FilledSpan",
    "FilledText",
    "FilledTexts",
    "Filling",
    "GeometryDescription",
    "GoldAlignment",
    "Greedy",
    "GroupAccuracy",
    "GroupDifference",
    "HeadDistances",
    "HeadEffect",
    "HeadIntervention",
    "HeadRanking",
    "HeadSums",
    "HeadSweep",
    "Health",
    "HiddenStates",
    "InspectedMaps",
    "Inspection",
    "InspectionDistances",
    "InspectionStart",
    "InspectionStream",
    "InternalError",
    "Interval",
    "InvalidArgument",
    "InvalidReply",
    "KeptProbe",
    "LabelPrediction",
    "LabelSets",
    "LabelledQuestions",
    "LabelledTexts",
    "LabelledWords",
    "LayerCode",
    "LayerEraser",
    "LayerFit",
    "LayerMix",
    "LayerProbe",
    "LayerReading",
    "LayerRegression",
    "LayerStructuralProbe",
    "LensInput",
    "LensNormalisation",
    "LensPosition",
    "LensText",
    "LensTexts",
    "LinearEraser",
    "LoadProgress",
    "LogitAttribution",
    "LogitAttributions",
    "Machine",
    "MapFormat",
    "MapView",
    "MaskedLmLoss",
    "MaskedWords",
    "Mention",
    "Metric",
    "MetricEffect",
    "MinimalPairs",
    "Mode",
    "Model",
    "ModelReport",
    "Models",
    "NearestTo",
    "Neighbour",
    "Neighbourhoods",
    "NeuronAttribution",
    "NeuronAttributions",
    "NextSentence",
    "NoisyWords",
    "NotFound",
    "ObjectScoring",
    "Occurrence",
    "Order",
    "Others",
    "PairValues",
    "PassageAnswer",
    "PatchDirection",
    "PathReceiver",
    "PatternSums",
    "PermissionDenied",
    "Picture",
    "Place",
    "Pooling",
    "PositionKind",
    "PositionScope",
    "Precision",
    "PredictedValue",
    "PredictedValues",
    "Prediction",
    "ProbeEnding",
    "ProbePart",
    "ProbeProgress",
    "ProbeResult",
    "ProbeText",
    "ProbedSpan",
    "Provenance",
    "Published",
    "Quantity",
    "RankedCandidate",
    "RankedCandidates",
    "RatedTexts",
    "Ratio",
    "Recovery",
    "RegressionResult",
    "RelationKnowledge",
    "RelationScore",
    "RelationScores",
    "RelationText",
    "RepresentationComparison",
    "ResourceExhausted",
    "Retries",
    "RetrievedSentences",
    "Runtime",
    "RuntimeChoice",
    "RuntimeTimes",
    "Scope",
    "Score",
    "ScoredInput",
    "ScoredPiece",
    "ScoredText",
    "ScoredTexts",
    "ScoredWord",
    "Scoring",
    "Share",
    "SimilarTexts",
    "SimilarTo",
    "Site",
    "SiteDirection",
    "SiteEffect",
    "SiteIntervention",
    "SiteSweep",
    "SiteSweepStart",
    "Span",
    "SparseCodes",
    "Speed",
    "StateLoss",
    "StatePooling",
    "StateQuantity",
    "StateUnit",
    "StatesInput",
    "StructuralProbeProgress",
    "StructuralProbeResult",
    "StudiesSummary",
    "StudyBenchmark",
    "StudyRow",
    "StudyTable",
    "Substitutions",
    "SweepStart",
    "SweepSummary",
    "SweepTable",
    "TagCount",
    "TagCounts",
    "TaggedText",
    "TaggedTexts",
    "TaggedWord",
    "TargetScale",
    "TemplateChoice",
    "TextComparison",
    "TextLabel",
    "TextScore",
    "TextSet",
    "TextValue",
    "TextsProgress",
    "Tls",
    "Token",
    "Trace",
    "TrainCodesProgress",
    "TrainLensProgress",
    "TreePart",
    "TreeScores",
    "TreeText",
    "TreeWord",
    "TunedLens",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "UnitContexts",
    "UnlabelledText",
    "ValuedText",
    "VectorAgreement",
    "ViewedMaps",
    "WordAlignment",
    "WordAttribution",
    "WordAttributions",
    "WordLabel",
    "WordLink",
    "WordNeighbours",
    "WordVariance",
    "__version__",
    "add",
    "block_attention",
    "conditional",
    "contact_relations",
    "count_tags",
    "eliminate_tokens",
    "erase",
    "half",
    "int8",
    "keep_layers",
    "load_contexts",
    "load_lens",
    "load_probe",
    "magnitude",
    "mean",
    "mean_site",
    "onnx",
    "patch",
    "read_contacts",
    "reduce_vocabulary",
    "remove_feed_forward",
    "remove_heads",
    "save_contexts",
    "scale",
    "scale_site",
    "score_alignments",
    "set_site",
    "uniform",
    "untrained",
    "weight_only",
    "zero",
]
# End of what is generated.

if not TYPE_CHECKING:  # A type checker would believe that every name is an attribute.

    def __getattr__(name: str) -> object:
        """Imports a public name when it is first used."""
        from importlib import import_module

        if name in _PLACES:
            value = getattr(import_module(_PLACES[name]), name)
        elif name in _WORKBENCH:
            from bertscope.values.workbench import of_workbench

            value = of_workbench(name)
        else:
            raise AttributeError(f"module 'bertscope' has no attribute {name!r}", name=name, obj=None)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Returns the public names, those of the workbench too."""
        return sorted({*globals(), *__all__, *_WORKBENCH})
