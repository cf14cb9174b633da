"""Asks a bertscope server what BERT-family models know, which of their heads matter, and what compressing them costs.

>>> import bertscope
>>> with bertscope.Client("127.0.0.1:50051") as client:  # doctest: +SKIP
...     for answer in client.fill_mask(["Paris is the capital of [MASK]."], top_k=5):
...         print(answer.masks[0].predictions[0].token)
"""

from bertscope._rpc.health import Health
from bertscope._rpc.retries import Retries
from bertscope._version import __version__
from bertscope.ablation.effects import CurvePoint, HeadEffect, MetricEffect
from bertscope.ablation.objectives import (
    ClozePrompts,
    Divergence,
    Greedy,
    MaskedLmLoss,
    MinimalPairs,
)
from bertscope.ablation.ranking import HeadRanking
from bertscope.ablation.sweeps import Bootstrap, SweepStart, SweepSummary, SweepTable
from bertscope.ablation.task_objectives import LabelledQuestions, LabelledTexts, LabelledWords, LabelSets, RatedTexts
from bertscope.aio import AsyncClient
from bertscope.aio.ablation import AsyncHeadSweep
from bertscope.aio.benchmark import AsyncStudyBenchmark
from bertscope.aio.inspection import AsyncInspectionStream
from bertscope.answers import AnsweredQuestion, AnsweredQuestions, AnswerSpan
from bertscope.attention.best_heads import BestHead, BestHeads
from bertscope.attention.comparison import AttentionComparison
from bertscope.attention.contacts import ContactScores, contact_relations, read_contacts
from bertscope.attention.description import AttentionDescription, PatternSums
from bertscope.attention.feature_scores import FeatureScore, FeatureScores
from bertscope.attention.head_distances import HeadDistances
from bertscope.attention.maps import AttentionMaps
from bertscope.attention.marked_texts import FeatureText, RelationText
from bertscope.attention.page import AttentionPage, attention_page
from bertscope.attention.relation_scores import DirectedSums, RelationScore, RelationScores
from bertscope.attention.selection import Direction, TextScore
from bertscope.attention.span_files import read_feature_texts, read_relation_texts
from bertscope.attention.sums import HeadSums
from bertscope.attention.treebanks import read_conllu, read_conllu_features, read_propbank
from bertscope.attention.trees import TreeScores
from bertscope.benchmark.reports import (
    Agreement,
    BenchmarkProgress,
    BenchmarkReport,
    Disturbances,
    Machine,
    ModelReport,
    Ratio,
    Score,
    Speed,
)
from bertscope.benchmark.studies import Published, StudiesSummary, StudyRow, StudyTable
from bertscope.choices import (
    DataType,
    Decoding,
    LensNormalisation,
    MapFormat,
    Metric,
    Mode,
    ObjectScoring,
    Order,
    Others,
    Picture,
    Precision,
    Quantity,
    Runtime,
    Scope,
    Scoring,
    StatePooling,
    StateQuantity,
    StateUnit,
    TemplateChoice,
)
from bertscope.classification import ClassifiedText, ClassifiedTexts, LabelPrediction
from bertscope.client import Client
from bertscope.client.ablation import HeadSweep
from bertscope.client.benchmark import StudyBenchmark
from bertscope.client.inspection import InspectionStream
from bertscope.cloze.answers import FilledMask, FilledText, FilledTexts, Prediction
from bertscope.cloze.substitutions import AMINO_ACIDS, Substitutions
from bertscope.compression.messages import CompressionProgress
from bertscope.compression.steps import (
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
from bertscope.credentials import Tls
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
from bertscope.facts.answers import FactAnswer, FactPrediction, FactResult
from bertscope.facts.fact_files import read_facts, read_templates, read_words
from bertscope.facts.knowledge import FactAnswers
from bertscope.facts.metrics import FactScores, RelationKnowledge, Share
from bertscope.facts.questions import Fact, FactRelation, FactTemplate
from bertscope.facts.rows import read_fact_rows
from bertscope.files import (
    INPUTS,
    LABEL_SETS,
    LABELLED,
    PAIRS,
    PROMPTS,
    QUESTIONS,
    RATED,
    TEXTS,
    ItemKind,
    read_answered,
    read_inputs,
    read_label_sets,
    read_labelled,
    read_pairs,
    read_prompts,
    read_questions,
    read_rated,
    read_texts,
)
from bertscope.fillings import FilledSpan, Filling
from bertscope.inspection.results import InspectedMaps, Inspection, InspectionDistances, InspectionStart, ViewedMaps
from bertscope.inspection.views import MapView
from bertscope.intervals import Interval
from bertscope.interventions import HeadIntervention, mean, scale, uniform, zero
from bertscope.items.run import RowsProgress, WrittenItems, write_items
from bertscope.items.sources import Item, ItemFile
from bertscope.models import LoadProgress, Model, Models, RuntimeChoice, RuntimeTimes
from bertscope.plots.alignment import plot_alignment, save_alignment
from bertscope.plots.attention import plot_attention, save_attention
from bertscope.plots.attention_statistics import plot_description, save_description
from bertscope.plots.attribution import plot_attribution, save_attribution
from bertscope.plots.benchmark import plot_benchmark, save_benchmark
from bertscope.plots.code_length import plot_code_length, save_code_length
from bertscope.plots.comparison import plot_comparison, save_comparison
from bertscope.plots.facts import plot_facts, save_facts
from bertscope.plots.geometry import plot_geometry, save_geometry
from bertscope.plots.inspection import plot_inspection, save_inspection
from bertscope.plots.lens import plot_lens, save_lens
from bertscope.plots.probes import plot_probe, save_probe
from bertscope.plots.relations import plot_features, plot_relations, save_features, save_relations
from bertscope.plots.representation_comparison import plot_representations, save_representations
from bertscope.plots.retrieval import plot_retrieval, save_retrieval
from bertscope.plots.scores import plot_surprisal, save_surprisal
from bertscope.plots.structural_probes import plot_structural_probe, save_structural_probe
from bertscope.plots.substitutions import plot_substitutions, save_substitutions
from bertscope.plots.sweeps import plot_ranking, plot_sweep, save_ranking, save_sweep
from bertscope.plots.text_sets import plot_accuracy, save_accuracy
from bertscope.plots.trees import plot_trees, save_trees
from bertscope.regression import PredictedValue, PredictedValues, RankedCandidate, RankedCandidates
from bertscope.representations.alignment import (
    AlignedWords,
    AlignmentScores,
    GoldAlignment,
    WordAlignment,
    WordLink,
    score_alignments,
)
from bertscope.representations.applied_probes import AppliedLayer, AppliedProbe, ProbedSpan
from bertscope.representations.attribution import LogitAttribution, LogitAttributions
from bertscope.representations.code_length import CodeLengthProgress, CodeLengths, LayerCode
from bertscope.representations.comparison import RepresentationComparison
from bertscope.representations.geometry import GeometryDescription
from bertscope.representations.kept_probes import KeptProbe, load_probe
from bertscope.representations.layer_mix import CumulativeProbe, LayerMix
from bertscope.representations.lens import EntryScore, LayerReading, LensInput, LensPosition, LensText, LensTexts
from bertscope.representations.neighbours import Neighbour, Neighbourhoods, Occurrence, WordNeighbours
from bertscope.representations.probe_application import UnlabelledText
from bertscope.representations.probe_files import SpanTexts, read_probe_texts, read_span_texts
from bertscope.representations.probe_texts import ProbeText
from bertscope.representations.probe_treebanks import ConlluLabel, ProbeTexts, read_probe_conllu
from bertscope.representations.probes import LayerProbe, Pooling, ProbeEnding, ProbePart, ProbeProgress, ProbeResult
from bertscope.representations.retrieval import RetrievedSentences
from bertscope.representations.state_files import WrittenStates, write_states
from bertscope.representations.states import HiddenStates, StatesInput
from bertscope.representations.structural_probes import (
    LayerStructuralProbe,
    StructuralProbeProgress,
    StructuralProbeResult,
    TreePart,
)
from bertscope.representations.translation_files import read_gold_alignments, read_translations
from bertscope.representations.tree_texts import TreeText, TreeWord
from bertscope.representations.tree_treebanks import TreeTexts, read_tree_conllu
from bertscope.representations.tuned_lens import LayerFit, TrainLensProgress, TunedLens, load_lens
from bertscope.representations.variances import ExplainableVariance, WordVariance
from bertscope.results import AppliedStep, Provenance, TextsProgress, Token
from bertscope.scores.comparison import ComparedSet, GroupAccuracy, GroupDifference, TextComparison
from bertscope.scores.inputs import ScoredInput, conditional
from bertscope.scores.set_files import read_sets
from bertscope.scores.set_rows import read_pair_rows
from bertscope.scores.sets import TextSet
from bertscope.scores.texts import ScoredPiece, ScoredText, ScoredTexts, ScoredWord
from bertscope.spans import Span
from bertscope.token_classification import Mention, TaggedText, TaggedTexts, TaggedWord

__all__ = [
    "AMINO_ACIDS",
    "INPUTS",
    "LABELLED",
    "LABEL_SETS",
    "PAIRS",
    "PROMPTS",
    "QUESTIONS",
    "RATED",
    "TEXTS",
    "Agreement",
    "AlignedWords",
    "AlignmentScores",
    "AlreadyExists",
    "AnswerSpan",
    "AnsweredQuestion",
    "AnsweredQuestions",
    "AppliedLayer",
    "AppliedProbe",
    "AppliedStep",
    "AsyncClient",
    "AsyncHeadSweep",
    "AsyncInspectionStream",
    "AsyncStudyBenchmark",
    "AttentionComparison",
    "AttentionDescription",
    "AttentionMaps",
    "AttentionPage",
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
    "ComparedSet",
    "CompressionProgress",
    "ConlluLabel",
    "ContactScores",
    "CumulativeProbe",
    "CurvePoint",
    "DataType",
    "DeadlineExceeded",
    "Decoding",
    "DirectedSums",
    "Direction",
    "Disturbances",
    "Divergence",
    "EntryScore",
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
    "Item",
    "ItemFile",
    "ItemKind",
    "KeptProbe",
    "LabelPrediction",
    "LabelSets",
    "LabelledQuestions",
    "LabelledTexts",
    "LabelledWords",
    "LayerCode",
    "LayerFit",
    "LayerMix",
    "LayerProbe",
    "LayerReading",
    "LayerStructuralProbe",
    "LensInput",
    "LensNormalisation",
    "LensPosition",
    "LensText",
    "LensTexts",
    "LoadProgress",
    "LogitAttribution",
    "LogitAttributions",
    "Machine",
    "MapFormat",
    "MapView",
    "MaskedLmLoss",
    "Mention",
    "Metric",
    "MetricEffect",
    "MinimalPairs",
    "Mode",
    "Model",
    "ModelReport",
    "Models",
    "Neighbour",
    "Neighbourhoods",
    "NotFound",
    "ObjectScoring",
    "Occurrence",
    "Order",
    "Others",
    "PatternSums",
    "PermissionDenied",
    "Picture",
    "Pooling",
    "Precision",
    "PredictedValue",
    "PredictedValues",
    "Prediction",
    "ProbeEnding",
    "ProbePart",
    "ProbeProgress",
    "ProbeResult",
    "ProbeText",
    "ProbeTexts",
    "ProbedSpan",
    "Provenance",
    "Published",
    "Quantity",
    "RankedCandidate",
    "RankedCandidates",
    "RatedTexts",
    "Ratio",
    "RelationKnowledge",
    "RelationScore",
    "RelationScores",
    "RelationText",
    "RepresentationComparison",
    "ResourceExhausted",
    "Retries",
    "RetrievedSentences",
    "RowsProgress",
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
    "Span",
    "SpanTexts",
    "Speed",
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
    "TaggedText",
    "TaggedTexts",
    "TaggedWord",
    "TemplateChoice",
    "TextComparison",
    "TextScore",
    "TextSet",
    "TextsProgress",
    "Tls",
    "Token",
    "TrainLensProgress",
    "TreePart",
    "TreeScores",
    "TreeText",
    "TreeTexts",
    "TreeWord",
    "TunedLens",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "UnlabelledText",
    "ViewedMaps",
    "WordAlignment",
    "WordLink",
    "WordNeighbours",
    "WordVariance",
    "WrittenItems",
    "WrittenStates",
    "__version__",
    "attention_page",
    "conditional",
    "contact_relations",
    "eliminate_tokens",
    "half",
    "int8",
    "keep_layers",
    "load_lens",
    "load_probe",
    "magnitude",
    "mean",
    "onnx",
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
    "plot_relations",
    "plot_representations",
    "plot_retrieval",
    "plot_structural_probe",
    "plot_substitutions",
    "plot_surprisal",
    "plot_sweep",
    "plot_trees",
    "read_answered",
    "read_conllu",
    "read_conllu_features",
    "read_contacts",
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
    "read_span_texts",
    "read_templates",
    "read_texts",
    "read_translations",
    "read_tree_conllu",
    "read_words",
    "reduce_vocabulary",
    "remove_feed_forward",
    "remove_heads",
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
    "save_relations",
    "save_representations",
    "save_retrieval",
    "save_structural_probe",
    "save_substitutions",
    "save_surprisal",
    "save_sweep",
    "save_trees",
    "scale",
    "score_alignments",
    "uniform",
    "untrained",
    "weight_only",
    "write_items",
    "write_states",
    "zero",
]
