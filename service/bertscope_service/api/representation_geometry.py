"""DescribeGeometry of the RepresentationService."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bertscope.v1 import representation_geometry_pb2 as geometry_pb2

from bertscope_service.analyses.geometry import GeometryPlan, GeometryQuery, LayerSums
from bertscope_service.api.checks import check_numbers, read_texts
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_states
from bertscope_service.api.spans import check_names
from bertscope_service.models.loaded import LoadedModel


def plan_geometry(request: geometry_pb2.DescribeGeometryRequest, model: LoadedModel, limits: RequestLimits) -> GeometryPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that shows no hidden states."""
    require_states(model)
    shape = model.encoder.shape
    query = GeometryQuery(
        inputs=read_texts(request.inputs),
        layers=check_numbers(request.layers, "layers", "layer", shape.layers + 1, model.name),
        pieces=request.pieces,
        special_tokens=request.special_tokens,
        words=check_words(request.words),
        second_moments=request.second_moments,
        truncate=request.truncate,
    )
    return GeometryPlan(query, model.tokenizer, shape.hidden_size)


def check_words(words: Sequence[str]) -> tuple[str, ...]:
    """Checks that words are different without their letter case. Returns them without blanks around."""
    check_names([word.strip().casefold() for word in words], "words")
    return tuple(word.strip() for word in words)


def render_geometry(plan: GeometryPlan, results: Sequence[Any], model: LoadedModel) -> geometry_pb2.DescribeGeometryResponse:
    found = plan.describe(results)
    return geometry_pb2.DescribeGeometryResponse(
        texts=len(plan.texts),
        compared_texts=plan.compared_texts,
        tokens=plan.tokens,
        truncated_texts=plan.truncated_texts,
        vectors=sum(one.units.count for one in plan.vectors),
        layers=map(_render_layer, found.layers),
        words=[
            geometry_pb2.WordGeometry(word=word, vectors=sums.vectors, directions=sums.directions.ravel().tolist())
            for word, sums in found.words.items()
        ],
        squared_vectors=plan.squared_vectors,
        provenance=render_provenance(model),
    )


def _render_layer(sums: LayerSums) -> geometry_pb2.LayerGeometry:
    moments = None
    if sums.moments is not None:
        moments = render_matrix(sums.moments[np.triu_indices(len(sums.moments))])
    return geometry_pb2.LayerGeometry(
        layer=sums.layer,
        directions=sums.directions.tolist(),
        direction_squares=sums.direction_squares.tolist(),
        components=sums.components.tolist(),
        norms=sums.norms,
        norm_squares=sums.norm_squares,
        similarities_to_mean=sums.similarities,
        similarity_squares=sums.similarity_squares,
        second_moments=moments,
        text_direction_squares=sums.text_direction_squares.tolist(),
        pair_similarities=sums.pair_similarities,
    )
