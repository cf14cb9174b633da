"""The types that name what arguments choose from hold exactly what the contract has; retries and what they become."""

import json
from collections.abc import Mapping
from typing import Any, get_args

import bertscope
import pytest
from bertscope.questions.ablation import requests as ablation_requests
from bertscope.questions.benchmark import requests as benchmark_requests
from bertscope.rpc import channel
from bertscope.v1 import ablation_pb2, attention_statistics_pb2, benchmark_pb2, cloze_pb2, common_pb2
from bertscope.values.messages import DATA_TYPES, MODES, PRECISIONS, QUANTITIES, RUNTIMES, values

DECODINGS = values(bertscope.Decoding, cloze_pb2.MaskDecoding, "MASK_DECODING_")
CHOICES: dict[str, tuple[Any, Mapping[str, int], Any, set[str]]] = {
    "Mode": (bertscope.Mode, MODES, common_pb2.HeadIntervention.Mode, set()),
    "Scope": (bertscope.Scope, ablation_requests.SCOPES, ablation_pb2.SweepHeadsRequest.Scope, set()),
    "Metric": (bertscope.Metric, ablation_requests.METRICS, ablation_pb2.Metric, set()),
    "Order": (bertscope.Order, ablation_requests.ORDERS, ablation_pb2.Greedy.Order, set()),
    "Scoring": (bertscope.Scoring, ablation_requests.SCORINGS, common_pb2.PseudoLogLikelihood, set()),
    "Precision": (bertscope.Precision, PRECISIONS, common_pb2.Precision, {"PRECISION_INT8", "PRECISION_WEIGHT_ONLY"}),
    "Runtime": (bertscope.Runtime, RUNTIMES, common_pb2.Runtime, set()),
    "DataType": (bertscope.DataType, DATA_TYPES, common_pb2.DataType, set()),
    "Quantity": (bertscope.Quantity, QUANTITIES, attention_statistics_pb2.AttentionQuantity, set()),
    "Decoding": (bertscope.Decoding, DECODINGS, cloze_pb2.MaskDecoding, set()),
    "Others": (bertscope.Others, benchmark_requests.OTHERS, benchmark_pb2.Others, set()),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_is_what_the_contract_has(name):
    choice, messages, enum, only_in_replies = CHOICES[name]
    assert set(get_args(choice)) == set(messages)
    in_contract = {value for key, value in enum.items() if value and key not in only_in_replies}
    assert set(messages.values()) == in_contract


def config(retries: bertscope.Retries | int) -> Any:
    options = dict(channel.channel_options((), bertscope.Retries.of(retries)))
    return json.loads(options["grpc.service_config"]), options["grpc.enable_retries"]


def test_retries_become_grpcs_policy(stored) -> None:
    stored(
        given=config(bertscope.Retries(attempts=2, first_seconds=0.25, most_seconds=1.5)),
        a_number=config(3)[0]["methodConfig"][0]["retryPolicy"],
        none=config(0),
        refused=[
            lambda: bertscope.Retries(attempts=0),
            lambda: bertscope.Retries(attempts=6),
            lambda: bertscope.Retries(first_seconds=0),
            lambda: bertscope.Retries(most_seconds=float("nan")),
            *(lambda given=given: bertscope.Client("127.0.0.1:1", retries=given) for given in (-1, 5, 1.5, "many")),
        ],
    )
