"""The request of AttributeWords."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from bertscope.questions.attribution.inputs import Section
from bertscope.v1 import attribution_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.choices import AbsentText, AttributionMethod, AttributionUnit
from bertscope.values.messages import enum_value, with_items
from bertscope.values.models import Model, model_name

Request = attribution_pb2.AttributeWordsRequest


def attribute_words_request(
    *,
    model: str | Model | None,
    method: str,
    absent: str | None,
    unit: str | None,
    exact_units: SupportsIndex | None,
    pairs: SupportsIndex | None,
    seed: SupportsIndex,
    first_pair: SupportsIndex,
    steps: SupportsIndex | None,
    max_steps: SupportsIndex | None,
    tolerance: float | None,
    interactions: bool,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> Request:
    """Returns the request, without its texts."""
    return Request(
        model=model_name("model", model),
        method=enum_value("method", method, AttributionMethod, attribution_pb2.AttributionMethod),
        absent=enum_value("absent", absent, AbsentText, attribution_pb2.AbsentText),
        unit=enum_value("unit", unit, AttributionUnit, attribution_pb2.AttributionUnit),
        exact_units=None if exact_units is None else validation.uint32("exact_units", exact_units),
        pairs=None if pairs is None else validation.positive("pairs", pairs),
        seed=validation.uint64("seed", seed),
        first_pair=validation.uint32("first_pair", first_pair),
        steps=None if steps is None else validation.positive("steps", steps),
        max_steps=None if max_steps is None else validation.positive("max_steps", max_steps),
        tolerance=None if tolerance is None else validation.finite_number("tolerance", tolerance),
        interactions=validation.flag("interactions", interactions),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def with_sections(request: Request, sections: Sequence[Section]) -> Request:
    """Returns the request about some sections, which have the same pairs."""
    found = with_items(request, "inputs", [section.message for section in sections])
    pairs = sections[0].pairs if sections else None
    if pairs is not None:
        found.first_pair, found.pairs = pairs.start, len(pairs)
    return found
