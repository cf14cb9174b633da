"""The stream of Inspect assembled: events, the whole, weights of bytes, and replies that break the contract."""

import re
from collections.abc import Callable
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.inspection.assembly import InspectionAssembler
from bertscope.questions.inspection.views import inspect_request
from bertscope.v1 import cloze_pb2, common_pb2
from bertscope.v1 import inspection_pb2 as inspection

DEFAULTS: dict[str, Any] = {
    "model": None,
    "top_k": None,
    "candidates": (),
    "interventions": (),
    "reference_texts": (),
    "truncate": False,
    "compare_untouched": True,
    "divergences": False,
    "maps": bertscope.MapView({1: [0, 2]}, pixels=2, format="uint8"),
    "words": False,
}
REQUEST = inspect_request("A [MASK].", **DEFAULTS)
CELLS = np.arange(8, dtype=np.uint8).reshape(2, 2, 2) * 30


def mask(*probabilities: float) -> cloze_pb2.FilledMask:
    found = cloze_pb2.FilledMask(token_index=1, start=2, end=8)
    for token, probability in enumerate(probabilities):
        found.predictions.add(token=f"w{token}", piece_ids=[token], probability=probability, rank=token + 1)
    return found


def header(**changed: Any) -> inspection.InspectResponse:
    fields: dict[str, Any] = {
        "tokens": [common_pb2.Token(text=text, special=text != "a") for text in ("[CLS]", "a", "[SEP]")],
        "masked_lm": True,
        "masks": [mask(0.5, 0.25)],
        "untouched_masks": [mask(0.125, 0.75)],
        "compared": True,
        "maps": [
            inspection.InspectedMaps(
                heads=[common_pb2.LayerHeads(layer=1, heads=[0, 2])],
                rows=2,
                columns=2,
                cell_size=2,
                row_range=inspection.UnitRange(end=3),
                column_range=inspection.UnitRange(end=3),
                format=inspection.MAP_FORMAT_UINT8,
            )
        ],
        "layers": 2,
        "heads": 3,
        "provenance": common_pb2.Provenance(model="models/fake", numbering=common_pb2.NUMBERING_ZERO_BASED),
    }
    return inspection.InspectResponse(header=inspection.InspectionHeader(**{**fields, **changed}))


def distances(*shape: int) -> inspection.InspectResponse:
    values = np.linspace(0, 1, int(np.prod(shape)), dtype="<f4")
    tensor = common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=shape, data=values.tobytes())
    return inspection.InspectResponse(distances=inspection.InspectionDistances(moved=tensor))


def chunk(offset: int, data: bytes, index: int = 0) -> inspection.InspectResponse:
    return inspection.InspectResponse(chunk=inspection.InspectionChunk(map_index=index, offset=offset, data=data))


GOOD = [header(), distances(2, 3), chunk(0, CELLS.tobytes()[:5]), chunk(5, CELLS.tobytes()[5:])]


def test_events_and_the_whole() -> None:
    assembler = InspectionAssembler(REQUEST)
    events = [assembler.add(message) for message in (*GOOD, inspection.InspectResponse())]
    whole = assembler.end()
    assert events == [whole.start, whole.distances, None, *whole.maps, None]
    np.testing.assert_array_equal(whole.maps[0].cells, CELLS)
    np.testing.assert_allclose(whole.maps[0].head(1, 2), CELLS[1] / 255, atol=1e-7)
    with pytest.raises(KeyError, match="layer 1, head 1"):
        whole.maps[0].head(1, 1)
    assert whole.distances is not None
    np.testing.assert_allclose(whole.distances.moved[1], [0.6, 0.8, 1], atol=1e-6)
    table = whole.to_pandas()
    assert table.token.tolist() == ["w0", "w1"]
    assert table.untouched_probability.tolist() == [0.125, 0.75]
    assert [len(repr(one).splitlines()) < 12 for one in (whole, *whole.maps, whole.start)] == [True] * 3
    assert whole._repr_html_()


def test_a_run_alone_has_no_scores_of_another() -> None:
    assembler = InspectionAssembler(inspect_request("A [MASK].", **{**DEFAULTS, "maps": ()}))
    assembler.add(header(maps=[], untouched_masks=[], compared=False))
    whole = assembler.end()
    assert (whole.distances, whole.maps, whole.untouched_masks) == (None, (), ())
    assert whole.to_pandas().untouched_rank.isna().tolist() == [True, True]


BROKEN = {
    "bytes before the header": [GOOD[2]],
    "two headers": [GOOD[0], GOOD[0]],
    "too few kinds of maps": [header(maps=[])],
    "an unknown format": [header(maps=[inspection.InspectedMaps(format=9)])],
    "maps of no head": [header(maps=[inspection.InspectedMaps(rows=1, columns=1, format=inspection.MAP_FORMAT_UINT8)])],
    "masks of one run": [header(untouched_masks=[])],
    "distances of other heads": [GOOD[0], distances(3, 3)],
    "distances twice": [*GOOD[:2], GOOD[1]],
    "bytes of no maps": [GOOD[0], chunk(0, b"1", index=1)],
    "bytes beyond the maps": [GOOD[0], chunk(6, b"123")],
    "bytes twice": [GOOD[0], chunk(0, b"12"), chunk(1, b"23")],
    "no header": [],
    "no distances": [GOOD[0], *GOOD[2:]],
    "bytes missing": GOOD[:3],
}


@pytest.mark.parametrize("messages", BROKEN.values(), ids=BROKEN)
def test_replies_that_break_the_contract(messages: list[inspection.InspectResponse]) -> None:
    with pytest.raises(bertscope.InvalidReply):
        assemble(messages)


def assemble(messages: list[inspection.InspectResponse]) -> bertscope.Inspection:
    assembler = InspectionAssembler(REQUEST)
    for message in messages:
        assembler.add(message)
    return assembler.end()


MAPS: Callable[..., bertscope.MapView] = bertscope.MapView
BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "maps[0]": ("must be a bertscope.MapView", {"maps": [3]}),
    "maps[0].pixels": ("must be at least 1", {"maps": MAPS(pixels=0)}),
    "maps[0].heads": ("is empty", {"maps": MAPS({})}),
    "maps[1].rows": ("must be a tuple", {"maps": [MAPS(), MAPS(rows=3)]}),
    "maps[0].columns[1]": ("must be 0 to", {"maps": MAPS(columns=(0, -1))}),
    "maps[0].format": ("must be one of float16", {"maps": MAPS(format="int8")}),
    "compare_untouched": ("must be True or False", {"compare_untouched": 1}),
}


@pytest.mark.parametrize("field", BAD)
def test_arguments_that_cannot_be_sent(field: str) -> None:
    message, changed = BAD[field]
    with pytest.raises(bertscope.InvalidArgument, match=f"{re.escape(field)}: {message}"):
        inspect_request("A [MASK].", **{**DEFAULTS, **changed})


def test_the_request() -> None:
    request = inspect_request(
        ("A [MASK].", "B."),
        **{**DEFAULTS, "words": True, "top_k": 3, "maps": [MAPS(), MAPS({2: None}, rows=(0, 2), untouched=True)]},
    )
    assert request.input.text_pair == "B."
    assert [len(view.heads) for view in request.maps] == [0, 1]
    assert request.maps[0].format == inspection.MAP_FORMAT_FLOAT16
    assert not request.maps[0].HasField("rows")
    assert (request.maps[1].rows.end, request.maps[1].untouched) == (2, True)
