"""The request of DescribeGeometry, and its replies."""

from __future__ import annotations

import numpy as np

from bertscope.errors import InvalidReply
from bertscope.questions.representations.geometry import GeometryDescription, LayerSums, Vector, WordDirections
from bertscope.v1 import representation_geometry_pb2 as geometry_pb2
from bertscope.values.merging import numbers
from bertscope.values.messages import read


def read_geometry(
    message: geometry_pb2.DescribeGeometryResponse, request: geometry_pb2.DescribeGeometryRequest
) -> GeometryDescription:
    """Returns the geometry of the texts of one call. Raises InvalidReply for a reply that breaks the contract."""
    if not message.layers or (not message.vectors and message.compared_texts):
        raise InvalidReply("the server sent the geometry of no layer")
    size = len(message.layers[0].directions)
    words: dict[str, WordDirections] = {}
    for entry in message.words:
        if entry.word >= len(request.words) or request.words[entry.word] in words or not entry.vectors:
            raise InvalidReply("the server sent a word that was not requested, twice, or without vectors")
        sums = numbers(entry.directions, (len(message.layers), size), "a word's directions")
        words[request.words[entry.word]] = WordDirections(entry.vectors, sums)
    return read(
        GeometryDescription,
        message,
        layers=tuple(layer.layer for layer in message.layers),
        sums=_layer_sums(message, size, moments=request.second_moments),
        words=words,
        pieces=request.pieces,
    )


def _layer_sums(message: geometry_pb2.DescribeGeometryResponse, size: int, *, moments: bool) -> LayerSums:
    def stacked(name: str) -> Vector:
        return np.array([numbers(getattr(layer, name), (size,), name) for layer in message.layers])

    def single(name: str) -> Vector:
        return np.array([getattr(layer, name) for layer in message.layers], np.float64)

    products = None
    if moments:
        triangles = [np.frombuffer(layer.second_moments.data, "<f4").astype(np.float64) for layer in message.layers]
        if any(len(triangle) != size * (size + 1) // 2 for triangle in triangles):
            raise InvalidReply("the server sent second moments of another size")
        products = np.array(triangles)
    return LayerSums(
        directions=stacked("directions"),
        direction_squares=stacked("direction_squares"),
        components=stacked("components"),
        norms=single("norms"),
        norm_squares=single("norm_squares"),
        similarities=single("similarities_to_mean"),
        similarity_squares=single("similarity_squares"),
        text_direction_squares=stacked("text_direction_squares"),
        pair_similarities=single("pair_similarities"),
        moments=products,
    )
