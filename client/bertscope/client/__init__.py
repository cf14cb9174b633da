# Generated from bertscope/aio/__init__.py. Do not edit: change that file, and run `make client`.
"""The client for threads and scripts."""

from bertscope.client.ablation import AblationCalls
from bertscope.client.answers import AnswerCalls
from bertscope.client.attention_comparison import AttentionComparisonCalls
from bertscope.client.attention_relations import RelationCalls
from bertscope.client.attention_trees import AttentionTreeCalls
from bertscope.client.benchmark import BenchmarkCalls
from bertscope.client.classification import ClassificationCalls
from bertscope.client.code_length import CodeLengthCalls
from bertscope.client.compression import CompressionCalls
from bertscope.client.facts import FactCalls
from bertscope.client.geometry import GeometryCalls
from bertscope.client.health import HealthCalls
from bertscope.client.inspection import InspectionCalls
from bertscope.client.languages import LanguageCalls
from bertscope.client.models import ModelCalls
from bertscope.client.proteins import ProteinCalls
from bertscope.client.representation_lens import LensCalls
from bertscope.client.representation_probe_application import ProbeApplicationCalls
from bertscope.client.representation_structural_probes import StructuralProbeCalls
from bertscope.client.representation_tuned_lens import TunedLensCalls
from bertscope.client.scores import ScoreCalls
from bertscope.client.word_states import WordStatesCalls


class Client(
    ProteinCalls,
    ModelCalls,
    FactCalls,
    ScoreCalls,
    AttentionTreeCalls,
    AttentionComparisonCalls,
    RelationCalls,
    GeometryCalls,
    InspectionCalls,
    LensCalls,
    TunedLensCalls,
    WordStatesCalls,
    LanguageCalls,
    CodeLengthCalls,
    StructuralProbeCalls,
    ProbeApplicationCalls,
    ClassificationCalls,
    AnswerCalls,
    AblationCalls,
    CompressionCalls,
    BenchmarkCalls,
    HealthCalls,
):
    """A connection to a bertscope server; may be used by many threads at once.

    `target` is "host:port"; without it the environment's BERTSCOPE_TARGET, else 127.0.0.1:50051. A method is its RPC in snake
    case. `model` is "models/x", "x" or a `Model`; None means the server's default model.

    `timeout` is in seconds. A call that answers once takes the client's timeout (60 unless set) if it has none of its own;
    `list_models` counts it for each page, and what takes any number of texts for each of the calls that they go in. A call that
    streams (`extract_attention`, `extract_hidden_states`, `train_probe`, `train_structural_probe`, `train_lens`,
    `load_model`, `sweep_heads`, `compress_model`,
    `benchmark_models`, `benchmark_studies`) or may work for long (`rank_heads`, `prune_heads`) has no limit unless it is given
    one. `math.inf` means no limit anywhere.

    `interventions` change what heads contribute (`zero`, `uniform`, `mean`, `scale`); `reference_texts` are what `mean`
    takes the mean over, required with it and rejected without.

    What only reads is tried again, up to four times within a second or so (`retries`), while the server cannot be reached; a
    benchmark, which takes a device for itself, is not. The logger "bertscope" logs targets, retries and resumed streams.
    Every method raises a `BertscopeError`; InvalidArgument also for what cannot be sent, before anything is.

    >>> with bertscope.Client("127.0.0.1:50051") as client:  # doctest: +SKIP
    ...     for answer in client.fill_mask("Paris is the capital of [MASK]."):
    ...         print(answer.masks[0].predictions[0].token)
    """
