"""The request of AttributeWords about the units of a site, and its replies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.attribution.inputs import Section
from bertscope.questions.attribution.neurons import AttributedUnit, NeuronAttribution
from bertscope.questions.representations.codes import SparseCodes
from bertscope.v1 import attribution_pb2
from bertscope.values import validation
from bertscope.values.changes import SITES, WITH_UNITS
from bertscope.values.messages import Numbers, enum_name, provenance, read
from bertscope.values.positions import Positions, checked_positions, positions_message

Request = attribution_pb2.AttributeWordsRequest
SITE_NAMES = {SITES[name]: name for name in WITH_UNITS} | {SITES["state"]: "codes"}


def with_site(
    request: Request,
    site: Literal["neurons", "heads"] | SparseCodes,
    layers: Numbers | None,
    positions: Positions | None,
    top: SupportsIndex | None,
) -> Request:
    """Returns the request, about the units of a site."""
    codes = site if isinstance(site, SparseCodes) else None
    if codes is not None and layers is not None:
        raise invalid_argument("layers", f"must be left out: the codes are of state {codes.layer}")
    name = "state" if codes else validation.choice("site", site, {name: name for name in WITH_UNITS})
    request.site.CopyFrom(
        attribution_pb2.AttributedSite(
            site=SITES[name],
            layers=validation.uint32s("layers", layers if codes is None else [codes.layer]),
            codes=None if codes is None else codes.change(factor=0).change.message().codes,
            positions=None if positions is None else positions_message(checked_positions("positions", positions)),
            top=0 if top is None else validation.positive("top", top),
        )
    )
    return request


def read_neurons(
    request: Request, sections: Sequence[Section], response: attribution_pb2.AttributeWordsResponse
) -> list[NeuronAttribution]:
    """Returns the answers of a reply. Raises InvalidReply for a reply that breaks the contract."""
    if len(response.results) != len(sections):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(sections)} texts")
    if response.method != request.method:
        raise InvalidReply("the server sent the values of another method; it may be older than this client")
    return [_read(request, section, message, response) for section, message in zip(sections, response.results, strict=True)]


def _read(
    request: Request,
    section: Section,
    message: attribution_pb2.WordAttribution,
    response: attribution_pb2.AttributeWordsResponse,
) -> NeuronAttribution:
    layers = tuple(sorted(request.site.layers)) or tuple(range(len(message.layer_sums)))
    if not layers or not len(layers) == len(message.layer_sums) == len(message.layer_values_absent):
        raise InvalidReply(f"the server sent sums of {len(message.layer_sums)} layers for {len(layers)}")
    if not all(math.isfinite(one.value) for one in message.site_units):
        raise InvalidReply("the server sent values that are not finite")
    name: Any = SITE_NAMES[request.site.site]
    return read(
        NeuronAttribution,
        message,
        text=section.text,
        target=section.target,
        site=name,
        units=tuple(read(AttributedUnit, one) for one in message.site_units),
        layers=layers,
        method=enum_name(attribution_pb2.AttributionMethod, response.method),
        error=message.completeness_error,
        provenance=provenance(response.provenance),
    )
