"""Inspect gives what FillMask, ExtractAttention and CompareAttention give, from one run; in pictures, windows and bytes."""

from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.exports import load_exported
from tests.support.harness import Host, LoopThread, launched

TEXT = "The unhappy player [MASK] on the [MASK]."
PAIR = ("The [MASK] sat.", "The children replayed the song unrecognizably.")
CHANGES = [bertscope.zero(2, [1]), bertscope.mean(1, [0]), bertscope.uniform(3, [2]), bertscope.scale(3, [0], factor=0.5)]
CHANGED: dict[str, Any] = {"interventions": CHANGES, "reference_texts": ["The cat sat.", "A song."]}
VIEWS = [
    bertscope.MapView(pixels=4, format="float32"),
    bertscope.MapView({1: [2, 0], 3: None}, rows=(1, 6), columns=(2, 5)),
    bertscope.MapView({2: [1]}, format="uint8", untouched=True),
]


@pytest.fixture(scope="module", params=["torch", pytest.param("onnx", marks=pytest.mark.slow)])
def client(request: pytest.FixtureRequest, loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[bertscope.Client]:
    """A client of models/bert and models/roberta in each runtime."""
    names, options = ("bert", "roberta"), {}
    if request.param == "onnx":
        cache = request.getfixturevalue("export_cache")
        for name in names:
            load_exported(checkpoints[name], cache)
        options = {"runtime": "onnx", "cache_folder": cache}
    models = [f"{name}={checkpoints[name]}" for name in names]
    with launched(loop, model=models, **options) as host, bertscope.Client(host.target) as made:
        yield made


def maxima(maps: NDArray[Any], cell: int) -> NDArray[Any]:
    """Each map reduced to the maxima of squares, the last ones smaller."""
    rows, columns = (ceil(size / cell) for size in maps.shape[1:])
    found = np.empty((len(maps), rows, columns), maps.dtype)
    for row in range(rows):
        for column in range(columns):
            part = maps[:, row * cell : (row + 1) * cell, column * cell : (column + 1) * cell]
            found[:, row, column] = part.max(axis=(1, 2))
    return found


@pytest.mark.parametrize(("model", "text", "words"), [("bert", TEXT, False), ("bert", PAIR, True), ("roberta", TEXT, True)])
def test_all_numbers_are_those_of_the_other_calls(client: bertscope.Client, model: str, text: Any, words: bool) -> None:
    asked: dict[str, Any] = {"model": model, "top_k": 3}
    found = client.inspect(text, compare_untouched=True, divergences=True, maps=VIEWS, words=words, **asked, **CHANGED)
    texts, pairs = (text, None) if isinstance(text, str) else ([text[0]], [text[1]])
    for masks, options in ((found.masks, CHANGED), (found.untouched_masks, {})):
        (filled,) = client.fill_mask(texts, text_pairs=pairs, **asked, **options)
        assert [(mask.start, mask.end, mask.token_index, mask.segment) for mask in masks] == [
            (mask.start, mask.end, mask.token_index, mask.segment) for mask in filled.masks
        ]
        for mask, other in zip(masks, filled.masks, strict=True):
            same_predictions(mask.predictions[:3], other.predictions)
            (scored,) = client.fill_mask(
                texts, text_pairs=pairs, model=model, piece_ids=[one.piece_ids[0] for one in mask.predictions], **options
            )
            ranks = {
                one.piece_ids: one.rank for every in scored.masks for one in every.predictions if every.start == mask.start
            }
            assert {one.piece_ids: one.rank for one in mask.predictions} == ranks
    for mask, other in zip(found.masks, found.untouched_masks, strict=True):
        assert {one.piece_ids for one in mask.predictions} == {one.piece_ids for one in other.predictions}
    (maps,) = client.extract_attention([text], model=model, words=words, **CHANGED)
    (before,) = client.extract_attention([text], model=model, words=words)
    assert (found.words or found.tokens) == maps.tokens
    check_maps(found, maps.attention, before.attention)
    compared = client.compare_attention([text], model=model, **CHANGED)
    (pieces,) = client.extract_attention([text], model=model, **CHANGED)
    (untouched,) = client.extract_attention([text], model=model)
    assert found.distances is not None
    assert found.distances.divergence is not None
    np.testing.assert_allclose(found.distances.divergence, compared.divergence.mean(), atol=1e-6)
    elsewhere = np.abs(pieces.attention - untouched.attention).sum(axis=3).mean(axis=2) / 2
    np.testing.assert_allclose(found.distances.moved, elsewhere, atol=1e-5)
    assert not found.distances.moved[:2].any(), "attention of layers up to the first changed one stays"
    assert found.distances.moved[2:].any()


def same_predictions(found: Sequence[bertscope.Prediction], expected: Sequence[bertscope.Prediction]) -> None:
    assert [(one.token, one.pieces, one.piece_ids, one.rank) for one in found] == [
        (one.token, one.pieces, one.piece_ids, one.rank) for one in expected
    ]
    logs = [one.log_probability for one in expected]
    np.testing.assert_allclose([one.log_probability for one in found], logs, atol=2e-5)
    np.testing.assert_allclose([one.probability for one in found], np.exp(logs), atol=1e-5)


def check_maps(found: bertscope.Inspection, maps: NDArray[Any], untouched: NDArray[Any]) -> None:
    pictures, window, bytes_ = found.maps
    layers, heads, size, _ = maps.shape
    cell = ceil(size / 4)
    assert pictures.view.cell_size == cell
    assert pictures.view.heads == tuple((layer, head) for layer in range(layers) for head in range(heads))
    np.testing.assert_allclose(pictures.cells, maxima(maps.reshape(-1, size, size), cell), atol=1e-5)
    assert (window.view.rows, window.view.columns, window.cells.dtype) == ((1, 6), (2, 5), np.float16)
    for layer, head in [(1, 0), (1, 2), *((3, head) for head in range(heads))]:
        np.testing.assert_allclose(window.head(layer, head), maps[layer, head, 1:6, 2:5], atol=1e-3)
    assert bytes_.view.untouched
    np.testing.assert_allclose(bytes_.head(2, 1), untouched[2, 1], atol=0.002)


def test_texts_without_masks_and_models_without_the_head(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        maskless = client.inspect("The cat sat.", model="bert", maps=VIEWS[0], candidates=["cat"])
        assert (maskless.masks, maskless.start.masked_lm, len(maskless.maps)) == ((), True, 1)
        headless = client.inspect(TEXT, model="headless", maps=VIEWS[0], compare_untouched=True, **CHANGED)
        assert (headless.masks, headless.untouched_masks, headless.start.masked_lm) == ((), (), False)
        assert headless.distances is not None
