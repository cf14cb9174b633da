"""Quantities of attention in a request."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.v1 import attention_statistics_pb2
from google.protobuf.message import Message

from bertscope_service.analyses.observers.quantities import Quantity, refusal
from bertscope_service.api.enums import members, numbers
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.requirements import refuse_sites
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel

_PREFIX = "ATTENTION_QUANTITY_"
QUANTITY_NUMBERS = numbers(Quantity, attention_statistics_pb2.AttentionQuantity, _PREFIX)
QUANTITIES: dict[int, Quantity] = {
    attention_statistics_pb2.ATTENTION_QUANTITY_UNSPECIFIED: Quantity.WEIGHTS,
    **members(Quantity, attention_statistics_pb2.AttentionQuantity, _PREFIX),
}


def read_quantity(number: int) -> Quantity:
    """Returns the quantity in a request's field of this name."""
    return QUANTITIES[number]


def require_description(model: LoadedModel, quantity: Quantity) -> None:
    """Raises Unsupported for a quantity of which there are no statistics."""
    if quantity is Quantity.VALUE_ZEROING:
        message = "value zeroing is not described, as it runs layers again for each token; ask ExtractAttention for its maps"
        raise Unsupported(message, "QUANTITY_UNSUPPORTED", model=model.name, quantity=quantity.value)


def require_quantity(model: LoadedModel, quantity: Quantity, request: Message) -> None:
    """Raises Unsupported for a model that lacks a quantity, and for one that can't be computed as a request changes sites."""
    if quantity is not Quantity.WEIGHTS:
        refuse_sites(request, f"{quantity.value} are made of layers that are taken apart; ask for weights")
    reason = refusal(quantity, model.encoder)
    if reason is not None:
        message = f"{model.name} has no {quantity.value}: {reason}"
        raise Unsupported(message, "QUANTITY_UNSUPPORTED", model=model.name, quantity=quantity.value)


def check_pairs(quantity: Quantity, sequences: Iterable[TokenSequence], limits: RequestLimits) -> None:
    """Checks that the texts of a quantity that runs a layer again for each token are not too much work."""
    if quantity is not Quantity.VALUE_ZEROING:
        return
    tokens = sum(len(sequence) ** 2 for sequence in sequences)
    if tokens > limits.tokens:
        message = (
            f"value zeroing runs each layer for each token of a text: inputs make {tokens} tokens of work and this server "
            f"takes {limits.tokens} in a request; send them in parts, or shorten them"
        )
        raise InvalidArgument("inputs", message, "TOO_MANY_TOKENS", limit=limits.tokens)
