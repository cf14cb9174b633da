"""The numbers of attention maps: weights, norms, rollouts, value zeroing."""

from bertscope.errors import InvalidReply
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.values.messages import enum_name

BY_HEAD = ("weights", "norms")
"""Quantities that each head has; a layer has the others once."""


def check_quantity(asked: int, sent: int) -> str:
    """Returns the name of the quantity that a reply has. Raises InvalidReply if it is not what was asked for: a server that is
    older than this client sends weights."""
    weights = statistics_pb2.ATTENTION_QUANTITY_WEIGHTS
    names = [enum_name(statistics_pb2.AttentionQuantity, one or weights) for one in (asked, sent)]
    if names[0] != names[1]:
        raise InvalidReply(f"the server sent {names[1]} and not {names[0]}; it may be older than this client")
    return names[0]
