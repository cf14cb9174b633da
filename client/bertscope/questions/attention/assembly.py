"""Assembles the chunks of an ExtractAttention stream to maps."""

from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.questions.attention.maps import AttentionMaps
from bertscope.questions.attention.quantities import check_quantity
from bertscope.rpc.assembly import Assembler
from bertscope.v1 import common_pb2
from bertscope.v1.attention_pb2 import AttentionHeader
from bertscope.values.messages import provenance, texts_of, token


class AttentionAssembler(Assembler[AttentionHeader, AttentionMaps]):
    """The state of one ExtractAttention stream."""

    what = "maps"

    def announced(self, header: AttentionHeader) -> common_pb2.Tensor:
        shape = tuple(header.attention.shape)
        if shape != (len(header.layers), len(header.heads), len(header.tokens), len(header.tokens)):
            raise InvalidReply(
                f"the server announced maps of shape {list(shape)} for {len(header.layers)} layers, "
                f"{len(header.heads)} heads and {len(header.tokens)} tokens"
            )
        check_quantity(self._request.quantity, header.quantity)
        return header.attention

    def result(
        self, asked: common_pb2.TextInput, header: AttentionHeader, values: npt.NDArray[np.floating[Any]]
    ) -> AttentionMaps:
        return AttentionMaps(
            input_index=header.input_index,
            **texts_of(asked),
            tokens=tuple(map(token, header.tokens)),
            attention=values,
            layers=tuple(header.layers),
            heads=tuple(header.heads),
            truncated_tokens=header.truncated_tokens,
            provenance=provenance(header.provenance),
            quantity=check_quantity(self._request.quantity, header.quantity),
        )
