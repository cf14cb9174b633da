"""Changes the vectors inside the layers of exported graphs, which are cut at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from bertscope_service.encoders.base import FLOAT32, Shape
from bertscope_service.encoders.onnx.decomposition import OnnxDecomposition
from bertscope_service.encoders.onnx.parts import Parts
from bertscope_service.encoders.onnx.streams import (
    PRODUCTS,
    GraphIndex,
    attribute,
    declare,
)
from bertscope_service.encoders.onnx.values import ANALYSIS, GATED, HIDDEN, at
from bertscope_service.encoders.site_edits import SiteEdits
from bertscope_service.encoders.sites import Site

ORDER = (Site.ATTENTION_OUTPUT, Site.ACTIVATIONS, Site.FEED_FORWARD_OUTPUT)
"""Inner sites, in the order in which a layer computes them."""


@dataclass(frozen=True, slots=True)
class InnerValues:
    """Names of the values of a layer at its inner sites, [rows, length, size] each, and the number of its activations."""

    names: Mapping[Site, str]
    activations: int


class SiteParts:
    """Runs the parts of layers between their sites."""

    def __init__(self, parts: Parts, shape: Shape, precision: str, found: OnnxDecomposition) -> None:
        """`found` knows the values that layers are taken apart into."""
        self._parts = parts
        self._shape = shape
        self._precision = precision
        self._named, self._streams = found.named, found.streams

    def refusal(self, site: Site, layer: int) -> str | None:
        """Returns why a site of a layer can't be changed, with the remedy; None if it can."""
        remedy = "load it with runtime torch"
        if site in (Site.STATE, Site.HEAD_OUTPUT):
            return None
        if not self._shape.heads_of(layer):
            return f"the graph of layer {layer}, which has no heads, is one piece; {remedy}"
        if site is Site.ATTENTION:
            return None if layer in self._named else f"its graph is of a form in which values can't be found; {remedy}"
        if self._precision not in (*FLOAT32, "weight_only"):
            return f"it rounds to {self._precision} inside its graph; load the model that it was made from"
        return None if layer in self._inner else f"its graph is of a form in which layers can't be cut inside; {remedy}"

    def values_of(self, layer: int) -> str:
        """Returns the name of a layer's values V, [rows, length, heads * head_size]."""
        return self._named[layer].values

    def finish(self, layer: int, sites: SiteEdits, gated: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the output of a layer, [rows, length, hidden_size], of gated contexts, [rows, length, heads, head_size], and
        its input, with changes at its inner sites."""
        feeds = {at(GATED, layer): gated, at(HIDDEN, layer): hidden}
        rows, length = hidden.shape[:2]
        for site in ORDER:
            if (site, layer) not in sites.places:
                continue
            inner = self._inner[layer]
            name, size = inner.names[site], inner.activations if site is Site.ACTIVATIONS else hidden.shape[2]
            found = self._run(feeds, name, (rows, length, size))
            vectors = found[..., None] if site is Site.ACTIVATIONS else found[:, :, None]
            feeds[name] = sites.apply((site, layer), vectors).flatten(2)
        return self._run(feeds, at(HIDDEN, layer + 1), tuple(hidden.shape))

    def _run(self, feeds: Mapping[str, torch.Tensor], name: str, shape: tuple[int, ...]) -> torch.Tensor:
        return self._parts.get(ANALYSIS, tuple(feeds), (name,)).run(feeds, {name: shape})[name]

    def size(self, site: Site) -> int | None:
        """Returns the length of the vectors at a site but those of heads; None if the graph does not show it."""
        if site is not Site.ACTIVATIONS:
            return self._shape.hidden_size
        return next((one.activations for one in self._inner.values()), None)

    @cached_property
    def _inner(self) -> dict[int, InnerValues]:
        graph = self._parts.graph(ANALYSIS).graph
        index = GraphIndex(graph)
        found = dict[int, InnerValues]()
        for layer, stream in self._streams.items():
            ends = stream.second.read if stream.second is not None else at(HIDDEN, layer + 1)
            residual = stream.first.written if stream.first is not None else stream.summed
            last = index.maker(ends)
            if last is None or last.op_type != "Add" or residual not in last.input:
                continue
            (written,) = [name for name in last.input if name != residual] or (residual,)
            read = read_by(index, written)
            if read is not None:
                named = (self._named[layer].projected, read[0], written)
                found[layer] = InnerValues(dict(zip(ORDER, named, strict=True)), read[1])
        declare(graph, {name for one in found.values() for name in one.names.values()})
        return found


def read_by(index: GraphIndex, written: str) -> tuple[str, int] | None:
    """Returns what the linear layer reads that writes a value, and its length; None if something else does."""
    node = index.maker(written)
    if node is not None and node.op_type == "Add":
        node = next((index.maker(name) for name in node.input if name not in index.constants), None)
    if node is None:
        return None
    if node.op_type == "MatMulNBits":
        return str(node.input[0]), int(attribute(node, "K", 0))
    sizes = _sizes(index, node.input[1]) if node.op_type in PRODUCTS else None
    if sizes is None:
        return None
    return str(node.input[0]), sizes[1] if node.op_type == "Gemm" and attribute(node, "transB", 0) == 1 else sizes[0]


def _sizes(index: GraphIndex, name: str) -> tuple[int, ...] | None:
    """Returns the sizes of a weight, which may be turned or decoded when it is read; None for what is computed."""
    node = index.maker(name)
    if node is None:
        return index.constants.get(name)
    if node.op_type not in ("Transpose", "DequantizeLinear"):
        return None
    sizes = _sizes(index, node.input[0])
    return sizes[::-1] if sizes is not None and node.op_type == "Transpose" else sizes
