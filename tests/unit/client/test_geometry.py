"""The geometry of hidden states: replies read and merged, numbers against brute force over all pairs, tables and JSON."""

import dataclasses
import itertools
import math

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations.geometry import document, frequent_words, word_columns
from bertscope.questions.representations.geometry_replies import read_geometry
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_geometry_pb2 as geometry_pb2
from bertscope.v1.representation_geometry_pb2 import DescribeGeometryRequest
from bertscope.values.requests import request_of
from bertscope.values.vectors import tensor

from tests.support.broken_replies import refusals

LAYERS, SIZE = (0, 2), 6
DEFAULTS = dict.fromkeys(("pieces", "special_tokens", "truncate"), False) | dict.fromkeys(("model", "layers"))
DEFAULTS |= {"words": ["cat", "Dog"], "second_moments": True, "interventions": (), "reference_texts": ()}
REQUEST = request_of(DescribeGeometryRequest, **DEFAULTS)
RANDOM = np.random.default_rng(7)
TEXTS = [RANDOM.normal(0.5, 1, (len(LAYERS), count, SIZE)) for count in (5, 1, 4)]
"""The vectors of three texts; the first two of each text are of the word "cat"."""


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def pairs(vectors: np.ndarray) -> float:
    """The mean cosine over pairs."""
    return float(np.mean([one @ other for one, other in itertools.combinations(unit(vectors), 2)]))


def reply(texts: list[np.ndarray], digest: str = "0") -> geometry_pb2.DescribeGeometryResponse:
    """What a server would send about some texts."""
    every = np.concatenate(texts, axis=1)
    cats = unit(np.concatenate([text[:, :2] for text in texts], axis=1))
    compared = [text for text in texts if text.shape[1] > 1]
    found = geometry_pb2.DescribeGeometryResponse(
        texts=len(texts),
        compared_texts=len(compared),
        tokens=every.shape[1] + 2 * len(texts),
        vectors=every.shape[1],
        squared_vectors=sum(text.shape[1] ** 2 for text in texts),
        words=[geometry_pb2.WordGeometry(word=0, vectors=cats.shape[1], directions=cats.sum(1).ravel())],
        provenance=common_pb2.Provenance(
            model="models/fake", weights_digest="sha256:" + digest * 64, numbering=common_pb2.NUMBERING_ZERO_BASED
        ),
    )
    for index, layer in enumerate(LAYERS):
        vectors = every[index]
        means = [float((unit(text[index]) @ unit(text[index].mean(0))).mean()) for text in compared]
        moments = (vectors.T @ vectors)[np.triu_indices(SIZE)].astype("<f4")
        norms = np.linalg.norm(vectors, axis=1)
        found.layers.add(
            layer=layer,
            directions=unit(vectors).sum(0),
            direction_squares=(unit(vectors) ** 2).sum(0),
            components=vectors.sum(0),
            norms=norms.sum(),
            norm_squares=(norms**2).sum(),
            similarities_to_mean=sum(means),
            similarity_squares=sum(mean**2 for mean in means),
            text_direction_squares=sum(unit(text[index]).sum(0) ** 2 for text in texts),
            pair_similarities=sum(pairs(text[index]) for text in compared),
            second_moments=tensor(moments),
        )
    return found


WHOLE = read_geometry(reply(TEXTS), REQUEST)


def test_numbers_are_those_of_all_pairs():
    every = np.concatenate(TEXTS, axis=1)
    cats = np.concatenate([text[:, :2] for text in TEXTS], axis=1)
    for index in range(len(LAYERS)):
        texts = [unit(text[index]) for text in TEXTS]
        apart = [
            np.outer(one, other) for first, second in itertools.permutations(texts, 2) for one in first for other in second
        ]
        between = np.mean([np.trace(product) for product in apart])
        assert WHOLE.anisotropy()[index] == pytest.approx(between)
        assert WHOLE.self_similarity("CAT")[index] == pytest.approx(pairs(cats[index]))
        assert WHOLE.self_similarity("cat", adjusted=True)[index] == pytest.approx(pairs(cats[index]) - between)
        within = np.mean([(unit(text[index]) @ unit(text[index].mean(0))).mean() for text in TEXTS if text.shape[1] > 1])
        assert WHOLE.intra_sentence_similarity()[index] == pytest.approx(within)
        within = np.mean([pairs(text[index]) for text in TEXTS if text.shape[1] > 1])
        assert WHOLE.similarity_in_texts()[index] == pytest.approx(within)
        assert WHOLE.norm()[index] == pytest.approx(np.linalg.norm(every[index], axis=1).mean())
        assert WHOLE.norm_deviation()[index] == pytest.approx(np.linalg.norm(every[index], axis=1).std())
        parts = np.sum([np.diagonal(product) for product in apart], axis=0)
        np.testing.assert_allclose(WHOLE.dimension_shares()[index], parts / parts.sum())
        values = np.linalg.svd(every[index], compute_uv=False) ** 2
        assert WHOLE.variance_shares(2)[index] == pytest.approx(values[:2].sum() / values.sum(), rel=1e-5)
        shares = np.linalg.svd(every[index] - every[index].mean(0), compute_uv=False)
        shares = shares / shares.sum()
        assert WHOLE.effective_rank()[index] == pytest.approx(math.exp(-(shares * np.log(shares)).sum()), rel=1e-4)


def test_parts_add_up_to_the_whole():
    parts = [read_geometry(reply(TEXTS[:1]), REQUEST), read_geometry(reply(TEXTS[1:]), REQUEST)]
    merged = bertscope.GeometryDescription.merge(parts)
    assert (
        repr(merged).splitlines()[0]
        == repr(WHOLE).splitlines()[0]
        == "<GeometryDescription: 2 layers, 3 texts, 10 vectors, models/fake>"
    )
    for name, values in WHOLE.columns().items():
        np.testing.assert_allclose(merged.columns()[name], values, rtol=1e-5, err_msg=name)
    for name, values in word_columns(WHOLE).items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(word_columns(merged)[name], values)
    with pytest.raises(bertscope.FailedPrecondition, match="other weights"):
        bertscope.GeometryDescription.merge([WHOLE, read_geometry(reply(TEXTS, "1"), REQUEST)])
    with pytest.raises(bertscope.InvalidArgument, match="has pieces True"):
        bertscope.GeometryDescription.merge([WHOLE, dataclasses.replace(WHOLE, pieces=True)])
    with pytest.raises(bertscope.InvalidArgument, match="give one part"):
        bertscope.GeometryDescription.merge([])


def test_tables_and_numbers_that_there_are_not(stored) -> None:
    single = read_geometry(reply(TEXTS[1:2]), REQUEST)
    plain = request_of(DescribeGeometryRequest, **{**DEFAULTS, "second_moments": False})
    few = [np.arange(1.0, 1 + 2 * count * SIZE).reshape(len(LAYERS), count, SIZE) % 7 for count in (2, 2)]
    texts = ["The cat, the CAT.", ("A cat; cat cat", "the the The 12 12 12 12 12 12")]
    stored(
        layers=WHOLE.columns(),
        words=word_columns(WHOLE),
        frame=WHOLE.to_pandas(),
        document=document(WHOLE),
        of_one_vector=document(single),
        without_moments=sorted(read_geometry(reply(TEXTS), plain).columns()),
        frequent_words=[frequent_words(texts, 9), frequent_words(texts, 1)],
        refused=[lambda: WHOLE.self_similarity("dog"), lambda: read_geometry(reply(TEXTS), plain).effective_rank()],
        broken=refusals(lambda messages: read_geometry(*messages, REQUEST), reply(few)),
    )
