"""The types that name what arguments choose from hold exactly what the contract has; retries and what they become."""

import json
from collections.abc import Iterator
from typing import Any, get_args

import bertscope
import pytest
from bertscope.rpc import channel, contract
from bertscope.values import choices
from bertscope.values.messages import names_of_values

SENT_BY_OTHER_NAMES = {"Scope", "Site", "PositionKind"}
MADE_HERE = {"Picture", "TemplateChoice"}
"""Choices that no request has."""


def enums(message: Any, seen: set[str]) -> Iterator[frozenset[str]]:
    """The names of each enum that a message holds."""
    for field in message.fields:
        if field.enum_type is not None:
            yield frozenset(names_of_values(field.enum_type))
        if field.message_type is not None and field.message_type.full_name not in seen:
            seen.add(field.message_type.full_name)
            yield from enums(field.message_type, seen)


IN_REQUESTS = {names for method in contract.METHODS for names in enums(method.input_type, set())}


@pytest.mark.parametrize("name", sorted({*choices.__all__} - SENT_BY_OTHER_NAMES - MADE_HERE))
def test_a_choice_is_what_the_contract_has(name):
    assert frozenset(get_args(getattr(choices, name))) in IN_REQUESTS


def config(retries: bertscope.Retries | int) -> Any:
    options = dict(channel.channel_options((), bertscope.Retries.of(retries)))
    return json.loads(options["grpc.service_config"]), options["grpc.enable_retries"]


def test_retries_become_grpcs_policy(stored) -> None:
    given, _ = config(bertscope.Retries(attempts=2, first_seconds=0.25, most_seconds=1.5))
    methods = {one["method"] for one in given["methodConfig"][0].pop("name")}
    assert {"FillMask", "TrainProbe"} <= methods
    assert "LoadModel" not in methods
    stored(
        given=given,
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
