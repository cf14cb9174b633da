"""Whatever is sent gets one of our documented statuses, and the next good request is answered."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from bertscope.inference import open_inference_pb2 as oip
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import ablation_sites_pb2 as sites
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import attention_relations_pb2 as relations
from bertscope.v1 import attention_statistics_pb2 as attention_statistics
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import benchmark_pb2 as benchmark
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import cloze_facts_pb2 as facts
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import cloze_scores_pb2 as scores
from bertscope.v1 import common_pb2, site_pb2, target_pb2
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import distillation_pb2 as distillation
from bertscope.v1 import inspection_pb2 as inspection
from bertscope.v1 import model_pb2 as model
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
from bertscope_service.contract import METHODS, Method, Work
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.harness import Failure, Host
from tests.support.requests import some_probe, zeros

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("brief", "offline")]

DOCUMENTED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
}
FAST = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
BENCHMARKS = settings(FAST, max_examples=20)
"""Good ones take a tenth of a second."""

NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 5, 300, 1001, 2**31, 2**32 - 1])
ENUMS = st.sampled_from([0, 1, 2, 3, 4, 5, 99, -1, 2**31 - 1, -(2**31)])
SCALES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-300, 1000.0, 1000.1, -1e308, float("nan"), float("inf"), float("-inf")])
ODD_TEXTS = st.sampled_from(
    [
        *("", " ", "\0", "\u200b", "\u202e", "\ufeff", "[MASK]", "[MASK][MASK]", "[mask]", "[SEP]", "[CLS] [MASK] [PAD]"),
        *("<mask>", "</s>", "\ud7ff\U0010ffff", "e\u0301" * 9, "😀[MASK]😀", "The [MASK] sat.", "x" * 600, "the " * 80),
        *("[MASK]" * 70, "a\n[MASK]\r\nb", "##ing", "[UNK] [MASK]", "東京 [MASK]", "[MASK" * 3),
    ]
)
# What can't be written as UTF-8 can't be in a request at all; the mutated bytes below cover it.
TEXTS = ODD_TEXTS | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
HOSTED = ("bert", "roberta", "headless", "sorter", "distilled", "tagger", "rater", "topics", "answerer")
GOOD_NAMES = tuple(f"models/{name}" for name in HOSTED)
MODELS = st.sampled_from(["", *GOOD_NAMES, "models/bert", "models/", "x", "models/😀"]) | TEXTS


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def lists(strategy: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=most)


INTERVENTIONS = lists(
    st.builds(
        common_pb2.HeadIntervention,
        layer=st.integers(0, 4) | NUMBERS,
        heads=lists(st.integers(0, 4) | NUMBERS),
        mode=ENUMS,
        scale=maybe(SCALES),
    ),
    3,
)
POSITIONS = st.one_of(
    st.builds(site_pb2.Positions),
    st.builds(site_pb2.Positions, kind=st.integers(0, 5) | ENUMS),
    st.builds(site_pb2.Positions, tokens=st.builds(site_pb2.TokenIndexes, tokens=lists(st.integers(0, 9) | NUMBERS))),
    st.builds(
        site_pb2.Positions,
        spans=st.builds(
            site_pb2.CharacterSpans,
            spans=lists(st.builds(common_pb2.CharacterSpan, start=NUMBERS, end=NUMBERS, segment=st.integers(0, 2))),
        ),
    ),
)
VECTORS = st.sampled_from([zeros(32), zeros(8), zeros(2, 32), zeros(32, 1), zeros(1, 32), zeros(0), common_pb2.Tensor()])
SITE_CHANGES = st.one_of(
    st.builds(site_pb2.SiteChange, scale=SCALES),
    st.builds(site_pb2.SiteChange, set=VECTORS),
    st.builds(site_pb2.SiteChange, add=st.builds(site_pb2.Addition, vector=VECTORS, strength=maybe(SCALES))),
    st.builds(
        site_pb2.SiteChange,
        codes=st.builds(
            site_pb2.CodesChange,
            factor=SCALES,
            replace=st.booleans(),
            **dict.fromkeys(("encoder", "biases", "thresholds", "decoder", "mean"), VECTORS),
        ),
    ),
    st.builds(site_pb2.SiteChange, erase=st.builds(site_pb2.Projection, left=VECTORS, right=VECTORS, mean=st.none() | VECTORS)),
    st.builds(
        site_pb2.SiteChange,
        source=st.builds(
            site_pb2.SiteSource,
            input=st.builds(common_pb2.TextInput, text=TEXTS | st.just("The [MASK] sat.")),
            model=st.just("") | MODELS,
            positions=st.none() | POSITIONS,
            layer=maybe(st.integers(0, 4) | NUMBERS),
        ),
    ),
    st.builds(site_pb2.SiteChange, mean=st.builds(site_pb2.MeanOfReference)),
    st.builds(site_pb2.SiteChange, block=POSITIONS),
    st.builds(site_pb2.SiteChange),
)
CHANGED_SITES = lists(
    st.builds(
        site_pb2.SiteIntervention,
        site=st.integers(1, 6) | ENUMS,
        layer=st.integers(0, 4) | NUMBERS,
        units=st.just([]) | lists(st.integers(0, 4) | NUMBERS),
        positions=st.none() | POSITIONS,
        change=st.none() | SITE_CHANGES,
    ),
    3,
)
REFERENCES = st.just([]) | lists(TEXTS | st.just("The cat sat."))
INPUTS = lists(st.builds(common_pb2.TextInput, text=TEXTS, text_pair=maybe(TEXTS)))
FILLS = st.builds(
    cloze.FillMaskRequest,
    model=MODELS,
    texts=lists(TEXTS | st.just("The [MASK] sat.")),
    top_k=maybe(NUMBERS),
    candidates=st.just([]) | lists(TEXTS),
    interventions=st.just([]) | INTERVENTIONS,
    site_interventions=st.just([]) | CHANGED_SITES,
    reference_texts=REFERENCES,
    truncate=st.booleans(),
    decoding=st.integers(0, 4) | ENUMS,
    beam_width=maybe(NUMBERS),
    max_pieces=maybe(NUMBERS),
    text_candidates=st.just([]) | lists(st.builds(cloze.CandidateList, words=lists(TEXTS | st.just("cat")))),
    piece_ids=st.just([]) | lists(NUMBERS),
    logits=st.booleans(),
    text_pairs=st.just([]) | lists(TEXTS | st.just("It is a [MASK].")),
    next_sentence=st.booleans(),
)
EXTRACTS = st.builds(
    attention.ExtractAttentionRequest,
    model=MODELS,
    inputs=INPUTS,
    layers=st.just([]) | lists(NUMBERS),
    heads=st.just([]) | lists(NUMBERS),
    dtype=st.sampled_from([0, 1, 2]) | ENUMS,
    level=st.sampled_from([0, 1, 2]) | ENUMS,
    quantity=st.integers(0, 8) | ENUMS,
    interventions=st.just([]) | INTERVENTIONS,
    site_interventions=st.just([]) | CHANGED_SITES,
    truncate=st.booleans(),
)
LISTS = st.builds(model.ListModelsRequest, page_size=NUMBERS, page_token=TEXTS | st.just("bW9kZWxzL2JlcnQ="))
GETS = st.builds(model.GetModelRequest, name=MODELS)


def is_spare(name: str) -> bool:
    """Not the name of a model that other tests need."""
    return name not in GOOD_NAMES


UNLOADS = st.builds(model.UnloadModelRequest, name=MODELS.filter(is_spare))
SOURCES = st.sampled_from(["", "/", ".", "./x", "/nowhere", "a/b", "a/b/c", "bertscope-mini/", "..", "/\0", "\0", "http://a/b"])
LOADS = st.builds(
    model.LoadModelRequest,
    model_id=st.sampled_from(["", "fuzz", "bert", "a" * 63, "a" * 64, ".", "é"]) | TEXTS,
    source=SOURCES | ODD_TEXTS.filter(lambda text: len(text) < 200),
    device=st.sampled_from(["", "cpu", "auto", "cuda", "cuda:7", "cuda:9999", "CPU", "cpu "]) | TEXTS,
    precision=ENUMS,
    revision=st.sampled_from(["", "", "main", "../..", "\0", "x" * 300]),
)


def mostly(good: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Good ones nine times of ten, so that what comes after them is reached."""
    return st.integers(0, 9).flatmap(lambda number: odd if number == 7 else good)


def some(strategy: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[list[Any]]:
    return mostly(st.lists(strategy, min_size=1, max_size=most), st.just([]))


ANSWERINGS = st.builds(
    answering.AnswerQuestionsRequest,
    model=mostly(st.just("models/answerer"), MODELS),
    inputs=some(
        st.builds(answering.Question, question=TEXTS | st.just("Who sat?"), passage=TEXTS | st.just("The cat sat. " * 30))
    ),
    best=maybe(NUMBERS),
    max_answer_tokens=maybe(NUMBERS),
    stride=maybe(NUMBERS),
    interventions=st.just([]) | INTERVENTIONS,
    site_interventions=st.just([]) | CHANGED_SITES,
    reference_texts=REFERENCES,
)
CLASSIFIES = st.builds(
    classification.ClassifyRequest,
    model=mostly(st.sampled_from(["models/sorter", "models/distilled", "models/topics"]), MODELS),
    inputs=mostly(some(st.builds(common_pb2.TextInput, text=TEXTS.filter(bool))), INPUTS),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
VALUES = st.builds(
    classification.PredictValuesRequest,
    model=mostly(st.just("models/rater"), MODELS),
    inputs=mostly(some(st.builds(common_pb2.TextInput, text=TEXTS.filter(bool), text_pair=maybe(TEXTS.filter(bool)))), INPUTS),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)

PLACES = mostly(st.integers(0, 12), NUMBERS)
SPANS = st.builds(
    common_pb2.CharacterSpan,
    start=PLACES,
    end=PLACES.map(lambda end: min(end + 4, 2**32 - 1)),
    segment=mostly(st.just(0), NUMBERS),
)
WORDS_IN_ORDER = st.lists(st.integers(1, 3), min_size=1, max_size=4).map(
    lambda sizes: [common_pb2.CharacterSpan(start=3 * at, end=3 * at + size) for at, size in enumerate(sizes)]
)
TAGS = st.builds(
    classification.ClassifyTokensRequest,
    model=mostly(st.just("models/tagger"), MODELS),
    inputs=some(
        st.builds(
            classification.TaggedInput,
            input=st.builds(common_pb2.TextInput, text=mostly(st.just("The cat sat [MASK]."), TEXTS), text_pair=maybe(TEXTS)),
            words=mostly(WORDS_IN_ORDER | st.just([]), st.lists(SPANS, max_size=4)),
        )
    ),
    top_k=mostly(st.integers(0, 5), NUMBERS),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
SCORED = st.builds(
    relations.ScoreRelationsRequest,
    model=mostly(st.sampled_from(GOOD_NAMES), MODELS),
    texts=some(
        st.builds(
            relations.RelationText,
            input=st.builds(common_pb2.TextInput, text=mostly(st.just("The cat sat [MASK]."), TEXTS), text_pair=maybe(TEXTS)),
            words=mostly(WORDS_IN_ORDER, lists(SPANS)),
            pairs=some(
                st.builds(
                    relations.WordPair,
                    relation=mostly(st.integers(0, 1), NUMBERS),
                    source=mostly(st.integers(0, 2), NUMBERS),
                    target=mostly(st.integers(0, 2), NUMBERS),
                ),
                2,
            ),
        )
    ),
    relations=mostly(st.just(["a", "b"]), lists(TEXTS)),
    details=st.booleans(),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
)
MARKED = st.builds(
    relations.ScoreFeaturesRequest,
    model=mostly(st.sampled_from(GOOD_NAMES), MODELS),
    texts=some(
        st.builds(
            relations.FeatureText,
            input=st.builds(common_pb2.TextInput, text=mostly(st.just("The cat sat [MASK]."), TEXTS), text_pair=maybe(TEXTS)),
            spans=lists(
                st.builds(
                    relations.MarkedSpan,
                    feature=mostly(st.integers(0, 1), NUMBERS),
                    span=mostly(st.sampled_from([common_pb2.CharacterSpan(start=4, end=7)]), SPANS),
                )
            ),
        )
    ),
    features=mostly(st.just(["a", "b"]), lists(TEXTS)),
    special_tokens=st.booleans(),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
)

INPUTS_TO_SCORE = some(
    st.builds(
        scores.ScoredInput,
        text=mostly(st.just("The cat sat [MASK]."), TEXTS),
        text_pair=maybe(TEXTS),
        spans=mostly(st.just([]) | WORDS_IN_ORDER, lists(SPANS)),
        skip_words=mostly(st.just(0), NUMBERS),
        max_words=maybe(NUMBERS),
    )
)
SCORES = st.builds(
    scores.ScoreTextsRequest,
    model=mostly(st.just(""), MODELS),
    inputs=INPUTS_TO_SCORE,
    scoring=mostly(st.integers(0, 3), ENUMS),
    pieces=st.booleans(),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
PLACED = st.sampled_from(["The [X] sat on the [Y].", "[Y] [X]", "[X][Y]", "In [Y] the cat saw [X] [SEP] ."])
OBJECTS = st.sampled_from(["the", "a", "cat", "unplayable", "[MASK]", "##s", "🦖"])
FACTS = st.builds(
    facts.QueryFactsRequest,
    model=mostly(st.sampled_from(["", *GOOD_NAMES[:2]]), MODELS),
    relations=some(
        st.builds(
            facts.FactRelation,
            name=TEXTS.filter(lambda text: text.strip()),
            templates=some(st.builds(facts.FactTemplate, text=mostly(PLACED, TEXTS), negated=st.booleans()), 2),
            candidates=st.just([]) | st.lists(mostly(OBJECTS, TEXTS), max_size=4, unique=True),
        ),
        2,
    ),
    facts=some(
        st.builds(
            facts.Fact,
            relation=mostly(st.just(0), NUMBERS),
            subject=mostly(st.sampled_from(["France", "[Y]", "a [X]", "[MASK", "x" * 300]), TEXTS),
            objects=some(mostly(OBJECTS, TEXTS)),
            primes=mostly(st.just([]), lists(TEXTS)),
        )
    ),
    vocabulary=mostly(st.just([]), lists(OBJECTS | TEXTS)),
    scoring=mostly(st.integers(0, 4), ENUMS),
    max_pieces=mostly(st.none(), NUMBERS),
    top_k=mostly(st.integers(0, 5), NUMBERS),
    prior=mostly(st.just(False), st.booleans()),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
)

SETS = st.builds(
    scores.CompareTextsRequest,
    model=mostly(st.just(""), MODELS),
    sets=some(
        st.builds(
            scores.TextSet,
            texts=mostly(
                st.lists(st.builds(scores.ScoredInput, text=mostly(st.just("The cat sat."), TEXTS)), min_size=2, max_size=4),
                INPUTS_TO_SCORE,
            ),
            right=mostly(st.integers(0, 1), NUMBERS),
            groups=mostly(st.just(["a", "b"]), lists(TEXTS)),
        )
    ),
    scoring=mostly(st.integers(0, 3), ENUMS),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)

# Objectives; most of them good, so that what comes after them is reached.
PLAIN = st.sampled_from(["The cat sat.", "A dog ran near the house.", "Nobody waited for the waiter."])
MASKED = st.sampled_from(["The [MASK] sat.", "[MASK] ran.", "A [MASK] is in the house."])
DESCRIPTIONS = st.builds(
    attention_statistics.DescribeAttentionRequest,
    model=mostly(st.just(""), MODELS),
    inputs=mostly(some(st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS), text_pair=maybe(PLAIN))), INPUTS),
    layers=mostly(st.just([]), lists(NUMBERS)),
    punctuation=mostly(st.just([]), lists(TEXTS | st.sampled_from([".", ",", "cat"]))),
    head_distances=st.booleans(),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
COMPARISONS = st.builds(
    attention_statistics.CompareAttentionRequest,
    model=mostly(st.just(""), MODELS),
    other_model=mostly(st.just("models/headless"), MODELS),
    inputs=mostly(some(st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS), text_pair=maybe(PLAIN))), INPUTS),
    punctuation=mostly(st.just([]), lists(TEXTS | st.sampled_from([".", ",", "cat"]))),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
RANGES = st.builds(inspection.UnitRange, start=mostly(st.integers(0, 2), NUMBERS), end=mostly(st.integers(3, 5), NUMBERS))
INSPECTIONS = st.builds(
    inspection.InspectRequest,
    model=mostly(st.sampled_from(GOOD_NAMES), MODELS),
    input=st.builds(common_pb2.TextInput, text=mostly(MASKED, TEXTS), text_pair=maybe(mostly(PLAIN, TEXTS))),
    top_k=maybe(mostly(st.integers(1, 30), NUMBERS)),
    candidates=mostly(st.sampled_from([[], ["the", "a"]]), lists(TEXTS)),
    interventions=st.just([]) | INTERVENTIONS,
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
    compare_untouched=st.booleans(),
    divergences=st.booleans(),
    maps=lists(
        st.builds(
            inspection.MapView,
            heads=mostly(st.just([]), lists(st.builds(common_pb2.LayerHeads, layer=NUMBERS, heads=lists(NUMBERS)))),
            pixels=mostly(st.integers(0, 128), NUMBERS),
            rows=maybe(RANGES),
            columns=maybe(RANGES),
            format=mostly(st.integers(0, 3), ENUMS),
            untouched=mostly(st.just(False), st.booleans()),
        )
    ),
    level=mostly(st.integers(0, 2), ENUMS),
)
GEOMETRIES = st.builds(
    geometry.DescribeGeometryRequest,
    model=mostly(st.just(""), MODELS),
    inputs=mostly(some(st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS), text_pair=maybe(PLAIN))), INPUTS),
    layers=mostly(st.sampled_from([[], [0, 4], [2]]), lists(NUMBERS)),
    pieces=st.booleans(),
    special_tokens=st.booleans(),
    words=mostly(st.sampled_from([[], ["the", "cat"], ["The", "the"]]), lists(TEXTS)),
    second_moments=st.booleans(),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
ALIKE = st.builds(
    geometry.CompareRepresentationsRequest,
    model=mostly(st.just(""), MODELS),
    other_model=mostly(st.sampled_from(["", "models/headless"]), MODELS),
    inputs=mostly(some(st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS), text_pair=maybe(PLAIN))), INPUTS),
    layers=mostly(st.sampled_from([[], [0, 4], [2]]), lists(NUMBERS)),
    other_layers=mostly(st.sampled_from([[], [4, 0, 1]]), lists(NUMBERS)),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
WORD_SPANS = [common_pb2.CharacterSpan(start=start, end=start + 3) for start in (0, 4, 8)]
SENTENCES = mostly(st.just(common_pb2.TextInput(text="The cat sat")), st.builds(common_pb2.TextInput, text=TEXTS))
STATES = st.builds(
    states.ExtractHiddenStatesRequest,
    model=mostly(st.just(""), MODELS),
    inputs=some(SENTENCES, 1),
    layers=mostly(st.sampled_from([[], [0, 4], [2]]), lists(NUMBERS)),
    unit=mostly(st.integers(0, 4), ENUMS),
    pooling=mostly(st.integers(0, 5), ENUMS),
    spans=mostly(st.just([states.TextSpans(spans=WORD_SPANS)]), st.just([])),
    interventions=mostly(st.just([]), INTERVENTIONS),
    truncate=st.booleans(),
)
LABELLED_SPANS = [
    st.builds(
        probes.LabelledSpan,
        span=mostly(st.just(span), SPANS),
        label=mostly(st.integers(0, 1), NUMBERS),
        value=mostly(st.none(), SCALES),
    )
    for span in WORD_SPANS
]
PROBED = some(st.builds(probes.ProbeText, input=SENTENCES, spans=st.tuples(*LABELLED_SPANS).map(list)))
SHORT = {
    "model": mostly(st.just(""), MODELS),
    "layers": mostly(st.sampled_from([[], [0, 4], [2]]), lists(NUMBERS)),
    "pooling": mostly(st.integers(0, 3), ENUMS),
    "max_epochs": mostly(st.just(1), st.just(1001)),
    "patience": mostly(st.integers(0, 2), st.just(1001)),
    "seeds": mostly(st.integers(0, 2), st.just(11)),
    "memory_bytes": mostly(st.none(), st.integers(0, 100_000)),
    "interventions": mostly(st.just([]), INTERVENTIONS),
}
VALUED_SPANS = [
    st.builds(probes.LabelledSpan, span=mostly(st.just(span), SPANS), value=mostly(st.floats(-1e3, 1e3), SCALES))
    for span in WORD_SPANS
]
VALUED = some(st.builds(probes.ProbeText, input=SENTENCES, spans=st.tuples(*VALUED_SPANS).map(list)))


def _probings(texts: Any, labels: Any) -> Any:
    return st.builds(
        probes.TrainProbeRequest,
        train=texts,
        dev=mostly(texts, st.just([])),
        test=mostly(st.just([]), texts),
        labels=labels,
        l2=mostly(st.none(), SCALES),
        weights=st.booleans(),
        hidden_units=mostly(st.integers(0, 4), NUMBERS),
        mix=st.booleans(),
        **SHORT,
    )


PROBINGS = st.one_of(_probings(PROBED, mostly(st.just(["a", "b"]), lists(TEXTS))), _probings(VALUED, st.just([])))
ERASINGS = st.builds(
    erasers.TrainEraserRequest,
    train=PROBED,
    test=mostly(st.just([]), PROBED),
    labels=mostly(st.just(["a", "b"]), lists(TEXTS)),
    method=mostly(st.integers(0, 2), ENUMS),
    rank=mostly(st.integers(0, 3), NUMBERS),
    seed=mostly(st.just(0), st.integers(0, 2**64 - 1)),
    **{name: value for name, value in SHORT.items() if name not in ("max_epochs", "patience", "seeds")},
)


def _numbered(texts: list[contexts.ContextText]) -> list[contexts.ContextText]:
    return [contexts.ContextText(text=text.text, id=index) for index, text in enumerate(texts)]


TREE_WORDS = [
    st.builds(structural.TreeWord, span=st.just(span), head=mostly(st.just(head), NUMBERS))
    for span, head in zip(WORD_SPANS, (2, 3, 0), strict=True)
]
TREES = some(st.builds(structural.TreeText, input=SENTENCES, words=st.tuples(*TREE_WORDS).map(list)))
STRUCTURES = st.builds(
    structural.TrainStructuralProbeRequest,
    quantity=mostly(st.integers(0, 2), ENUMS),
    train=TREES,
    dev=mostly(TREES, st.just([])),
    test=mostly(st.just([]), TREES),
    rank=mostly(st.integers(0, 4), NUMBERS),
    **SHORT,
)
TUNED = st.builds(
    tuned.TrainLensRequest,
    train=some(SENTENCES),
    dev=mostly(some(SENTENCES), st.just([])),
    mask_rate=mostly(st.none(), SCALES),
    normalisation=mostly(st.integers(0, 2), ENUMS),
    learning_rate=mostly(st.none(), SCALES),
    weights=st.booleans(),
    **{name: value for name, value in SHORT.items() if name not in ("pooling", "seeds")},
)
CODES = st.builds(
    codes.TrainCodesRequest,
    train=some(SENTENCES),
    dev=mostly(some(SENTENCES), st.just([])),
    layer=mostly(st.integers(0, 4), NUMBERS),
    codes=mostly(st.integers(0, 9), NUMBERS),
    active=mostly(st.integers(0, 3), NUMBERS),
    mask_rate=mostly(st.none(), SCALES),
    learning_rate=mostly(st.none(), SCALES),
    epochs=mostly(st.integers(1, 2), NUMBERS),
    weights=st.booleans(),
)
DIRECTIONS = st.builds(
    contexts.DirectionUnits,
    site=mostly(st.sampled_from([1, 2, 3, 4, 5]), ENUMS),
    layer=mostly(st.integers(0, 4), NUMBERS),
    vectors=st.just(zeros(2, 32)),
    cosine=st.booleans(),
)
CONTEXTS = st.builds(
    contexts.FindContextsRequest,
    texts=some(st.builds(contexts.ContextText, text=st.builds(relations.RelationText, input=SENTENCES))).map(_numbered),
    heads=mostly(st.builds(contexts.HeadUnits, pattern=mostly(st.integers(0, 2), ENUMS)), st.none()),
    activations=mostly(st.none(), st.just(contexts.ActivationUnits())),
    directions=mostly(st.just([]), lists(DIRECTIONS)),
    best=mostly(st.integers(0, 3), NUMBERS),
    sample=mostly(st.integers(0, 5), NUMBERS),
    pieces=st.booleans(),
    words=mostly(st.just([]), lists(TEXTS)),
    truncate=st.booleans(),
)
MAPS = [lens.Translator(layer=layer, affine=zeros(33, 32)) for layer in range(5)]
LENSES = st.builds(
    lens.ReadLayersRequest,
    translators=mostly(st.sampled_from([[], MAPS[:4], MAPS[2:3]]), lists(st.sampled_from(MAPS))),
    model=mostly(st.just(""), MODELS),
    inputs=mostly(
        some(
            st.builds(
                lens.LensInput, text=mostly(MASKED, TEXTS), text_pair=maybe(PLAIN), spans=mostly(st.just([]), lists(SPANS))
            )
        ),
        st.just([]),
    ),
    layers=mostly(st.sampled_from([[], [0, 4], [2]]), lists(NUMBERS)),
    top_k=mostly(st.none(), NUMBERS),
    candidates=mostly(st.sampled_from([[], ["the", "cat"]]), lists(TEXTS)),
    all_pieces=st.booleans(),
    normalisation=mostly(st.integers(0, 2), ENUMS),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
ATTRIBUTIONS = st.builds(
    lens.AttributeLogitsRequest,
    model=mostly(st.just(""), MODELS),
    inputs=mostly(
        some(
            st.builds(
                lens.AttributedInput,
                text=mostly(MASKED, TEXTS),
                text_pair=maybe(PLAIN),
                answer=mostly(st.just("the"), TEXTS),
                other_answer=mostly(st.just("cat"), TEXTS),
                mask=mostly(st.none() | st.just(0), NUMBERS),
            )
        ),
        st.just([]),
    ),
    ablate=st.booleans(),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
TARGETS = st.builds(
    target_pb2.Target,
    mask=maybe(st.builds(target_pb2.MaskTarget, answer=mostly(st.just("the"), TEXTS), other=maybe(TEXTS), mask=maybe(NUMBERS))),
    scale=mostly(st.integers(0, 3), ENUMS),
) | st.one_of(
    st.builds(target_pb2.Target, label=st.builds(target_pb2.LabelTarget, label=mostly(st.just(""), TEXTS), other=maybe(TEXTS))),
    st.builds(
        target_pb2.Target,
        word_label=st.builds(
            target_pb2.WordLabelTarget, word=SPANS, label=mostly(st.sampled_from(["", "O"]), TEXTS), other=maybe(TEXTS)
        ),
    ),
    st.builds(target_pb2.Target, answer=st.builds(target_pb2.AnswerTarget, answer=SPANS), scale=mostly(st.just(0), ENUMS)),
    st.builds(target_pb2.Target, value=st.just(target_pb2.ValueTarget())),
    st.builds(
        target_pb2.Target,
        similarity=st.builds(
            target_pb2.SimilarityTarget,
            other=st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS), text_pair=maybe(TEXTS)),
            pooling=mostly(st.integers(0, 4), ENUMS),
        ),
    ),
    st.builds(target_pb2.Target, next_sentence=st.just(target_pb2.NextSentenceTarget())),
)
DIVIDED = st.builds(
    attribution.AttributedSite,
    site=mostly(st.sampled_from([2, 4]), ENUMS),
    layers=mostly(st.sampled_from([[], [0, 3], [2]]), lists(NUMBERS)),
    top=mostly(st.integers(0, 3), NUMBERS),
)
EXPLAINED = st.builds(
    attribution.AttributeWordsRequest,
    model=mostly(st.sampled_from(GOOD_NAMES), MODELS),
    inputs=mostly(
        some(
            st.builds(
                attribution.AttributedText,
                text=mostly(MASKED, TEXTS),
                text_pair=maybe(PLAIN),
                target=mostly(TARGETS, st.just(target_pb2.Target())),
                spans=mostly(st.just([]), lists(SPANS)),
            )
        ),
        st.just([]),
    ),
    method=mostly(st.integers(0, 5), ENUMS),
    absent=mostly(st.integers(0, 3), ENUMS),
    unit=mostly(st.integers(0, 2), ENUMS),
    exact_units=mostly(st.none() | st.integers(0, 4), NUMBERS),
    pairs=mostly(st.integers(1, 3), NUMBERS),
    seed=NUMBERS,
    first_pair=NUMBERS,
    steps=mostly(st.integers(1, 3), NUMBERS),
    site=mostly(st.none(), DIVIDED),
    max_steps=mostly(st.integers(3, 9), NUMBERS),
    tolerance=mostly(st.none() | st.just(0.5), SCALES),
    interactions=st.booleans(),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    truncate=st.booleans(),
)
SHARES = st.sampled_from([0.0, -0.0, 0.15, 0.5, 1.0, 1.1, -1.0, 1e-300, float("nan"), float("inf")])


SENTENCES = st.builds(
    ablation.LabelledSentence,
    input=st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS), text_pair=maybe(TEXTS)),
    words=mostly(WORDS_IN_ORDER, st.lists(SPANS, max_size=4)).map(
        lambda spans: [ablation.LabelledWord(span=span, label="O" if at % 9 else "B-PER") for at, span in enumerate(spans)]
    ),
)
LABELLED = st.builds(
    ablation.LabelledText,
    input=st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS)),
    label_index=mostly(st.just(1), NUMBERS),
) | st.builds(
    ablation.LabelledText,
    input=st.builds(common_pb2.TextInput, text=PLAIN, text_pair=maybe(TEXTS)),
    label=mostly(st.just("positive"), TEXTS),
)
OBJECTIVES = st.one_of(
    st.builds(
        ablation.Objective,
        masked_lm_loss=st.builds(
            ablation.MaskedLmLoss, texts=some(mostly(PLAIN, TEXTS)), seed=NUMBERS, mask_share=mostly(st.none(), SHARES)
        ),
        truncate=st.booleans(),
    ),
    st.builds(
        ablation.Objective,
        cloze=st.builds(
            ablation.ClozePrompts,
            prompts=some(
                st.builds(
                    ablation.ClozePrompt,
                    text=mostly(MASKED, TEXTS),
                    answers=some(mostly(st.sampled_from(["cat", "dog", "unplayable"]), TEXTS)),
                )
            ),
            skip_multi_piece=st.booleans(),
        ),
        truncate=st.booleans(),
    ),
    st.builds(
        ablation.Objective,
        minimal_pairs=st.builds(
            ablation.MinimalPairs,
            pairs=some(st.builds(ablation.MinimalPair, good=mostly(PLAIN, TEXTS), bad=mostly(PLAIN, TEXTS)), 2),
            scoring=st.sampled_from([0, 1, 2]) | ENUMS,
        ),
        truncate=st.booleans(),
    ),
    st.builds(ablation.Objective, classification=st.builds(ablation.LabelledTexts, texts=some(LABELLED))),
    st.builds(ablation.Objective, token_classification=st.builds(ablation.LabelledSentences, texts=some(SENTENCES))),
    st.builds(
        ablation.Objective,
        question_answering=st.builds(
            ablation.LabelledQuestions,
            questions=some(
                st.builds(
                    ablation.LabelledQuestion,
                    input=st.builds(answering.Question, question=mostly(PLAIN, TEXTS), passage=mostly(PLAIN, TEXTS)),
                    answers=lists(st.builds(common_pb2.CharacterSpan, start=mostly(st.just(0), NUMBERS), end=NUMBERS)),
                )
            ),
            max_answer_tokens=maybe(NUMBERS),
            stride=maybe(NUMBERS),
            no_answer_threshold=mostly(st.just(0.0), SCALES),
        ),
    ),
    st.builds(
        ablation.Objective,
        divergence=st.builds(
            ablation.Divergence,
            inputs=some(st.builds(common_pb2.TextInput, text=mostly(MASKED, TEXTS), text_pair=maybe(PLAIN))),
        ),
        truncate=st.booleans(),
    ),
    st.builds(
        ablation.Objective,
        regression=st.builds(
            ablation.RatedTexts,
            texts=some(
                st.builds(
                    ablation.RatedText,
                    input=st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS), text_pair=maybe(PLAIN)),
                    value=st.floats(),
                )
            ),
        ),
        truncate=st.booleans(),
    ),
    st.builds(
        ablation.Objective,
        multi_label=st.builds(
            ablation.LabelSets,
            texts=some(
                st.builds(
                    ablation.LabelSet,
                    input=st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS), text_pair=maybe(PLAIN)),
                    labels=lists(mostly(st.sampled_from(["negative", "positive", "neutral"]), TEXTS)),
                )
            ),
        ),
        truncate=st.booleans(),
    ),
    st.just(ablation.Objective()),
)
LAYERS = st.builds(
    common_pb2.LayerHeads, layer=mostly(st.integers(0, 3), NUMBERS), heads=some(mostly(st.integers(0, 3), NUMBERS))
)
SWEEPS = st.builds(
    ablation.SweepHeadsRequest,
    model=mostly(st.sampled_from(["", "models/sorter", "models/tagger", "models/rater", "models/topics"]), MODELS),
    objective=OBJECTIVES,
    scope=mostly(st.sampled_from([0, 0, 1, 2]), ENUMS),
    sets=st.just([]) | some(st.builds(ablation.HeadSet, layers=some(LAYERS)), 5),
    mode=mostly(st.sampled_from([1, 1, 2, 3, 4]), ENUMS),
    scale=mostly(st.none(), SCALES),
    reference_texts=mostly(st.just([]), REFERENCES),
    interventions=mostly(st.just([]), INTERVENTIONS),
    bootstrap=mostly(
        st.none(), st.builds(ablation.Bootstrap, resamples=maybe(NUMBERS), seed=NUMBERS, confidence=maybe(SHARES))
    ),
    memory_bytes=mostly(st.none(), st.sampled_from([0, 1, 5000, 100_000, 2**40, 2**64 - 1])),
    greedy=st.none()
    | st.builds(
        ablation.Greedy,
        order=mostly(st.integers(0, 3), ENUMS),
        step=mostly(st.integers(0, 2), NUMBERS),
        max_removed=mostly(st.integers(0, 4), NUMBERS),
        metric=mostly(st.just(0), ENUMS),
    ),
)
PARTS = st.builds(site_pb2.CharacterSpans, spans=mostly(some(st.sampled_from(WORD_SPANS), 2), lists(SPANS)))
CORRUPTIONS = st.one_of(
    st.fixed_dictionaries({"corrupted": st.builds(common_pb2.TextInput, text=mostly(MASKED, TEXTS))}),
    st.fixed_dictionaries(
        {
            "noise": st.builds(
                sites.EmbeddingNoise,
                spans=PARTS,
                deviation=mostly(st.none(), SCALES),
                samples=mostly(st.integers(1, 3), NUMBERS),
                seed=NUMBERS,
            )
        }
    ),
    st.fixed_dictionaries({"masked": PARTS}),
    st.just({}),
)
GROUPS = some(st.builds(sites.PositionGroup, name=mostly(st.sampled_from(["subject", "verb"]), TEXTS), spans=PARTS), 2)
PATCHED = st.builds(
    lambda text, corruption, **fields: sites.PatchedPair(clean=common_pb2.TextInput(text=text), **corruption, **fields),
    mostly(MASKED, TEXTS),
    CORRUPTIONS,
    target=mostly(TARGETS, st.just(target_pb2.Target())),
    groups=mostly(st.just([]), GROUPS),
)
SITE_SCOPES = st.builds(
    sites.SiteScope,
    site=mostly(st.integers(1, 5), ENUMS),
    layers=mostly(st.sampled_from([[], [0], [2, 1]]), lists(NUMBERS)),
    each=mostly(st.integers(0, 2), ENUMS),
    units=mostly(st.sampled_from([[], [0], [3, 1]]), lists(NUMBERS)),
)
SITE_SWEEPS = st.builds(
    sites.SweepSitesRequest,
    model=mostly(st.sampled_from(["", "models/sorter", "models/tagger", "models/rater"]), MODELS),
    pairs=some(PATCHED, 2),
    scopes=mostly(some(SITE_SCOPES, 2), st.just([])),
    paths=mostly(st.none(), st.builds(sites.PathScope, sender_layers=lists(NUMBERS), receiver_layers=lists(NUMBERS))),
    positions=mostly(st.integers(0, 4), ENUMS),
    direction=mostly(st.integers(0, 2), ENUMS),
    change=mostly(st.none(), st.builds(site_pb2.SiteChange, scale=SCALES)),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
    memory_bytes=mostly(st.none(), st.sampled_from([0, 1, 5000, 100_000, 2**40, 2**64 - 1])),
)
RANKS = st.builds(
    ablation.RankHeadsRequest,
    model=mostly(st.sampled_from(["", "models/sorter", "models/rater"]), MODELS),
    objective=OBJECTIVES,
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
)
# Nothing here may be written to: tests/e2e and tests/integration/api/test_pruning.py save models.
FOLDERS = st.sampled_from(
    ["", "", "", "", ".", "pruned", "../x", "~", " ", "/", "/proc/x", "/dev/null", "/dev/null/x", "/\0", "C:\\x"]
)
PRUNES = st.builds(
    ablation.PruneHeadsRequest,
    model=mostly(st.sampled_from(GOOD_NAMES), MODELS),
    model_id=mostly(st.sampled_from(["fuzz", "a" * 63]), st.sampled_from(["", "bert", "a" * 64, ".", "é"]) | TEXTS),
    heads=some(LAYERS, 3),
    folder=FOLDERS,
)
HALVES = {"precision": mostly(st.sampled_from([common_pb2.PRECISION_BFLOAT16, common_pb2.PRECISION_FLOAT16]), ENUMS)}
CORPORA = mostly(st.just(["The cat sat.", "A dog ran."]), lists(TEXTS))
KEPT = mostly(st.sampled_from([[1.0, 0.9, 0.5, 0.2], [0.5, 0.5], [0.3]]), lists(SHARES))
# No good export: it takes seconds. Steps that refuse one come with it.
STEPS: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.just(compression.Int8Quantization()),
    "weight_only": st.builds(
        compression.WeightOnlyQuantization, bits=mostly(st.integers(0, 8), NUMBERS), block_size=mostly(st.just(0), NUMBERS)
    ),
    "half": st.builds(compression.HalfPrecision, **HALVES),
    "layers": st.builds(
        compression.LayerSelection, layers=mostly(st.sampled_from([[0], [1, 2], [0, 3], [0, 1, 2, 3]]), lists(NUMBERS))
    ),
    "heads": st.builds(compression.HeadRemoval, heads=some(LAYERS, 3))
    | st.builds(
        compression.HeadRemoval, heads=mostly(st.just([]), lists(LAYERS)), share=mostly(st.just(0.3), SHARES), texts=CORPORA
    ),
    "feed_forward": st.builds(compression.FeedForwardRemoval, share=mostly(st.just(0.3), SHARES), criterion=st.integers(0, 1))
    | st.builds(compression.FeedForwardRemoval, share=mostly(st.just(0.3), SHARES), criterion=ENUMS, texts=CORPORA),
    "magnitude": st.builds(compression.MagnitudePruning, share=mostly(st.just(0.3), SHARES)),
    "untrained": st.builds(compression.RandomWeights, seed=st.integers(0, 2**64 - 1)),
    "tokens": st.builds(compression.TokenElimination, kept_shares=KEPT),
    "vocabulary": st.builds(compression.VocabularyReduction, texts=CORPORA, min_count=mostly(st.integers(0, 2), NUMBERS)),
}
STEP = st.one_of([st.builds(compression.CompressionStep, **{name: step}) for name, step in STEPS.items()])
NO_EXPORT = st.just(
    [
        compression.CompressionStep(onnx=compression.OnnxExport()),
        compression.CompressionStep(half=compression.HalfPrecision(precision=common_pb2.PRECISION_BFLOAT16)),
    ]
)
COMPRESSES = st.builds(
    model.CompressModelRequest,
    model=mostly(st.sampled_from(GOOD_NAMES), MODELS),
    model_id=mostly(st.sampled_from(["fuzz", "a" * 63]), st.sampled_from(["", "bert", "a" * 64, ".", "é"]) | TEXTS),
    steps=mostly(
        st.lists(STEP, min_size=1, max_size=4, unique_by=lambda step: str(step.WhichOneof("step"))),
        NO_EXPORT | lists(STEP | st.just(compression.CompressionStep())),
    ),
    folder=FOLDERS,
)
LEARNED = st.builds(
    distillation.DistillationText, input=st.builds(common_pb2.TextInput, text=mostly(st.just("The cat sat"), TEXTS))
) | st.builds(distillation.DistillationText, input=st.just(common_pb2.TextInput(text="The cat")), label=TEXTS)
DISTILLS = st.builds(
    distillation.DistillModelRequest,
    model=mostly(st.sampled_from(GOOD_NAMES), MODELS),
    model_id=mostly(st.just("fuzz"), TEXTS),
    # Nothing may be saved there: what is refused last shows that all else was read.
    folder=mostly(st.just("/proc/fuzz"), FOLDERS),
    steps=mostly(
        st.just([compression.CompressionStep(layers=compression.LayerSelection(layers=[0, 1]))]),
        st.lists(STEP, max_size=4, unique_by=lambda step: str(step.WhichOneof("step"))),
    ),
    train=mostly(some(LEARNED), st.just([])),
    dev=mostly(some(LEARNED), st.just([])),
    test=mostly(some(LEARNED), st.just([])),
    objective=st.builds(
        distillation.DistillationObjective,
        soft=maybe(SCALES),
        temperature=maybe(SCALES),
        hard=maybe(SCALES),
        states=maybe(SCALES),
        attention=maybe(SCALES),
        state_loss=ENUMS,
        teacher_layers=mostly(st.just([]), lists(NUMBERS)),
    ),
    epochs=mostly(st.just(1), NUMBERS),
    batch_tokens=mostly(st.just(64), NUMBERS),
    learning_rate=maybe(SCALES),
    mask_rate=maybe(SCALES),
    evaluations=mostly(st.just(1), NUMBERS),
    truncate=st.booleans(),
)
SECONDS = st.sampled_from([0.0, 0.01, -1.0, 1e-300, 1e9, float("nan"), float("inf")])
BOOTSTRAPS = mostly(st.none(), st.builds(ablation.Bootstrap, resamples=maybe(NUMBERS), seed=NUMBERS, confidence=maybe(SHARES)))
MEASUREMENTS = st.builds(
    benchmark.Measurement,
    lengths=mostly(st.lists(st.integers(1, 64), max_size=2, unique=True), lists(NUMBERS)),
    texts=mostly(st.just([]), lists(TEXTS)),
    batch_sizes=mostly(st.sampled_from([[1], [1, 3], [2, 4, 8]]), lists(NUMBERS)),
    min_runs=mostly(st.just(3), NUMBERS),
    min_seconds=mostly(st.just(0.0), maybe(SECONDS)),
    max_seconds=mostly(st.just(0.01), maybe(SECONDS)),
    bootstrap=BOOTSTRAPS,
    others=mostly(st.integers(0, 2), ENUMS),
)
BENCHES = st.builds(
    benchmark.BenchmarkModelsRequest,
    models=mostly(st.lists(st.sampled_from(GOOD_NAMES), min_size=1, max_size=2, unique=True), lists(MODELS)),
    baseline=mostly(st.just(""), MODELS),
    measurement=mostly(MEASUREMENTS, st.none()),
    agreement_texts=mostly(st.just([]), lists(MASKED | PLAIN | TEXTS)) | lists(MASKED),
    top_k=mostly(st.integers(0, 5), NUMBERS),
    objective=mostly(st.none(), OBJECTIVES),
    embed=st.booleans(),
)
STUDIES = st.builds(
    benchmark.BenchmarkStudiesRequest,
    systems=lists(mostly(st.sampled_from(["DistilBERT", "WaLDORf (Tian 2019)", "BiLSTM-soft", "GOBO"]), TEXTS)),
    heavy=st.booleans(),
    measurement=mostly(MEASUREMENTS, st.none()),
    runtime=mostly(st.integers(0, 3), ENUMS),
)
PARAMETERS = st.dictionaries(
    mostly(st.just("top_k"), TEXTS),
    st.builds(oip.InferParameter, int64_param=NUMBERS.filter(lambda number: number < 2**31))
    | st.builds(oip.InferParameter, string_param=TEXTS)
    | st.builds(oip.InferParameter, double_param=SCALES),
    max_size=1,
)
CONTENTS = st.builds(
    oip.InferTensorContents,
    int64_contents=lists(mostly(st.integers(0, 5), st.sampled_from([-1, 300, 2**62]))),
    bytes_contents=mostly(st.just([]), lists(st.binary(max_size=20) | MASKED.map(str.encode))),
)
TENSORS = st.builds(
    oip.ModelInferRequest.InferInputTensor,
    name=mostly(st.sampled_from(["input_ids", "attention_mask", "token_type_ids"]), st.just("text") | TEXTS),
    datatype=mostly(st.just("INT64"), st.sampled_from(["BYTES", "INT32", "FP32", ""])),
    shape=mostly(st.sampled_from([[1, 4], [2, 2], [4, 1], [1, 1]]), lists(st.sampled_from([0, 1, 2, 64, -1, 2**62]))),
    contents=mostly(CONTENTS, st.none()),
)
WORDS = st.builds(
    lambda texts: oip.ModelInferRequest.InferInputTensor(
        name="text",
        datatype="BYTES",
        shape=[len(texts)],
        contents=oip.InferTensorContents(bytes_contents=[text.encode() for text in texts]),
    ),
    some(mostly(MASKED, TEXTS)),
)
APPLIED = st.builds(
    application.ApplyProbeRequest,
    model=mostly(st.just(""), MODELS),
    inputs=mostly(
        some(
            st.builds(
                application.ProbedText,
                input=st.builds(common_pb2.TextInput, text=mostly(PLAIN, TEXTS)),
                spans=some(
                    st.builds(
                        application.ProbedSpan,
                        span=mostly(st.just(common_pb2.CharacterSpan(start=2, end=5)), SPANS),
                        label=maybe(mostly(st.integers(0, 1), NUMBERS)),
                    )
                ),
            )
        ),
        st.just([]),
    ),
    probes=mostly(
        st.sampled_from([[some_probe(32)], [some_probe(32, 2), some_probe(32, 1)]]),
        st.sampled_from([[], [some_probe(16)], [some_probe(32), some_probe(32)], [some_probe(32, 2**31)]]),
    ),
    labels=mostly(st.just(["a", "b"]), lists(TEXTS)),
    pooling=mostly(st.integers(0, 3), ENUMS),
    top_k=mostly(st.integers(0, 2), NUMBERS),
    weights_digest=mostly(st.just(""), TEXTS),
    truncate=st.booleans(),
    interventions=mostly(st.just([]), INTERVENTIONS),
    reference_texts=mostly(st.just([]), REFERENCES),
)
INFERS = st.builds(
    oip.ModelInferRequest,
    model_name=mostly(st.sampled_from(GOOD_NAMES), MODELS),
    model_version=mostly(st.just(""), TEXTS),
    parameters=mostly(st.just({}), PARAMETERS),
    inputs=mostly(WORDS.map(lambda words: [words]), lists(TENSORS)) | lists(TENSORS),
    outputs=mostly(
        st.just([]),
        lists(
            st.builds(
                oip.ModelInferRequest.InferRequestedOutputTensor,
                name=mostly(st.sampled_from(["logits", "last_hidden_state", "token", "label", "probability"]), TEXTS),
            )
        ),
    ),
    raw_input_contents=mostly(st.just([]), lists(st.binary(max_size=40))),
)
RICH = {
    "ModelInfer": INFERS,
    "ModelMetadata": st.builds(oip.ModelMetadataRequest, name=MODELS, version=mostly(st.just(""), TEXTS)),
    "FillMask": FILLS,
    "ScoreTexts": SCORES,
    "CompareTexts": SETS,
    "QueryFacts": FACTS,
    "ExtractAttention": EXTRACTS,
    "ScoreRelations": SCORED,
    "ScoreFeatures": MARKED,
    "DescribeAttention": DESCRIPTIONS,
    "CompareAttention": COMPARISONS,
    "Inspect": INSPECTIONS,
    "DescribeGeometry": GEOMETRIES,
    "CompareRepresentations": ALIKE,
    "ExtractHiddenStates": STATES,
    "FindContexts": CONTEXTS,
    "TrainProbe": PROBINGS,
    "TrainEraser": ERASINGS,
    "TrainStructuralProbe": STRUCTURES,
    "TrainLens": TUNED,
    "TrainCodes": CODES,
    "ReadLayers": LENSES,
    "AttributeLogits": ATTRIBUTIONS,
    "AttributeWords": EXPLAINED,
    "ApplyProbe": APPLIED,
    "ListModels": LISTS,
    "GetModel": GETS,
    "UnloadModel": UNLOADS,
    "LoadModel": LOADS,
    "Classify": CLASSIFIES,
    "ClassifyTokens": TAGS,
    "PredictValues": VALUES,
    "AnswerQuestions": ANSWERINGS,
    "SweepHeads": SWEEPS,
    "SweepSites": SITE_SWEEPS,
    "RankHeads": RANKS,
    "PruneHeads": PRUNES,
    "CompressModel": COMPRESSES,
    "DistillModel": DISTILLS,
    "BenchmarkModels": BENCHES,
    "BenchmarkStudies": STUDIES,
}
"""Requests of which many are good; those of other methods are made from the descriptors of their fields."""


def any_field(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """One value of a field."""
    if field.message_type is not None:
        return st.deferred(lambda: any_message(GetMessageClass(field.message_type)))  # a message may hold itself
    if field.type == FieldDescriptor.TYPE_STRING:
        return MODELS if "name" in field.name or "model" in field.name else TEXTS
    kinds = {
        FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
        FieldDescriptor.CPPTYPE_ENUM: ENUMS,
        FieldDescriptor.CPPTYPE_STRING: st.binary(max_size=20),
        FieldDescriptor.CPPTYPE_DOUBLE: SCALES,
        FieldDescriptor.CPPTYPE_FLOAT: SCALES,
    }
    return kinds.get(field.cpp_type, NUMBERS.filter(lambda number: number < 2**31))


def any_message(kind: type[Message]) -> st.SearchStrategy[Any]:
    """A message with any values in any of its fields."""
    fields = [
        field for field in kind.DESCRIPTOR.fields if field.message_type is None or not field.message_type.GetOptions().map_entry
    ]
    values = {field.name: lists(any_field(field)) if field.is_repeated else any_field(field) for field in fields}
    return st.fixed_dictionaries({}, optional=values).map(lambda given: kind(**given))


EVERYTHING = {method: RICH[method.name] if method.name in RICH else any_message(method.request) for method in METHODS.values()}
each_method = pytest.mark.parametrize("method", EVERYTHING, ids=lambda method: method.name)


def test_every_rich_request_is_of_a_method() -> None:
    assert set(RICH) <= {method.name for method in METHODS.values()}


def send(host: Host, method: Method, data: bytes) -> None:
    try:
        host.ask(method, data)
    except grpc.RpcError as error:
        failure = Failure(error)
        assert failure.code in DOCUMENTED, f"{failure.code}: {failure.message}"


def writes(method: Method, data: bytes) -> bool:
    """Whether a request names a folder that could be written to, by chance."""
    request: Any = method.request()
    if "folder" not in request.DESCRIPTOR.fields_by_name:
        return False
    try:
        request.ParseFromString(data)
    except DecodeError:
        return False
    return bool(request.folder.startswith("/") and request.folder not in ("/", "/proc/x", "/dev/null", "/dev/null/x", "/\0"))


def examples(method: Method) -> settings:
    return BENCHMARKS if method.work is Work.WHOLE_DEVICE else FAST


@each_method
def test_odd_requests(lab: Host, check_alive: Callable[[Host], None], method: Method) -> None:
    before = lab.names()

    @examples(method)
    @given(EVERYTHING[method])
    def fuzz(request: Message) -> None:
        send(lab, method, request.SerializeToString())
        check_alive(lab)
        lab.unload_all_but(GOOD_NAMES)

    fuzz()
    assert lab.names() == before


def mutated(method: Method) -> st.SearchStrategy[bytes]:
    """Serialised requests with bytes changed, cut out, put in and put behind."""

    @st.composite
    def build(draw: st.DrawFn) -> bytes:
        data = bytearray(draw(EVERYTHING[method]).SerializeToString()[:2000])
        for _ in range(draw(st.integers(1, 4))):
            place = draw(st.integers(0, len(data)))
            how = draw(st.sampled_from(["set", "cut", "insert", "append", "truncate"]))
            some = draw(st.binary(min_size=1, max_size=6))
            if how == "set":
                data[place : place + 1] = some[:1]
            elif how == "cut":
                del data[place : place + len(some)]
            elif how == "insert":
                data[place:place] = some
            elif how == "append":
                data += some
            else:
                del data[place:]
        return bytes(data)

    return build()


@each_method
def test_mutated_bytes(lab: Host, check_alive: Callable[[Host], None], method: Method) -> None:
    before = lab.names()

    @examples(method)
    @given(mutated(method))
    def fuzz(data: bytes) -> None:
        if method.name == "UnloadModel" and any(name.encode() in data for name in GOOD_NAMES):
            return
        if writes(method, data):
            return
        send(lab, method, data)
        check_alive(lab)
        lab.unload_all_but(GOOD_NAMES)

    fuzz()
    assert lab.names() == before


@each_method
def test_pure_noise(lab: Host, check_alive: Callable[[Host], None], method: Method) -> None:
    @settings(FAST, max_examples=10 if method.work is Work.WHOLE_DEVICE else 40)
    @given(st.binary(max_size=60))
    def fuzz(data: bytes) -> None:
        if writes(method, data):
            return
        send(lab, method, data)

    fuzz()
    check_alive(lab)
