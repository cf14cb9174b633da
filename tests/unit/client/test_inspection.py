"""The stream of Inspect assembled: events, the whole, weights of bytes, and replies that break the contract."""

from typing import Any

import bertscope
import numpy as np
from bertscope.questions.inspection.assembly import InspectionAssembler
from bertscope.v1 import cloze_pb2, common_pb2
from bertscope.v1 import inspection_pb2 as inspection
from bertscope.values.vectors import tensor

from tests.support.broken_replies import refusals
from tests.support.sent_requests import sent

DEFAULTS: dict[str, Any] = dict.fromkeys(("truncate", "divergences", "words"), False) | dict.fromkeys(("model", "top_k"))
DEFAULTS |= dict.fromkeys(("interventions", "reference_texts"), ())
DEFAULTS |= {"compare_untouched": True, "maps": bertscope.MapView({1: [0, 2]}, pixels=2, format="uint8")}
REQUEST: Any = sent("inspect", text="A [MASK].", **DEFAULTS)
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
    moved = tensor(np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))
    return inspection.InspectResponse(distances=inspection.InspectionDistances(moved=moved))


def chunk(offset: int, data: bytes, index: int = 0) -> inspection.InspectResponse:
    return inspection.InspectResponse(chunk=inspection.InspectionChunk(map_index=index, offset=offset, data=data))


GOOD = [header(), distances(2, 3), chunk(0, CELLS.tobytes()[:5]), chunk(5, CELLS.tobytes()[5:])]


def assemble(messages: list[inspection.InspectResponse]) -> bertscope.Inspection:
    assembler = InspectionAssembler(REQUEST)
    for message in messages:
        assembler.add(message)
    return assembler.end()


def test_events_and_the_whole(stored) -> None:
    assembler = InspectionAssembler(REQUEST)
    events = [assembler.add(message) for message in (*GOOD, inspection.InspectResponse())]
    whole = assembler.end()
    assert events == [whole.start, whole.distances, None, *whole.maps, None]
    alone = InspectionAssembler(sent("inspect", text="A [MASK].", **{**DEFAULTS, "maps": ()}))
    alone.add(header(maps=[], untouched_masks=[], compared=False))
    of_one_run = alone.end()
    stored(
        inspection=whole,
        head=[whole.maps[0].head(1, 2), lambda: whole.maps[0].head(1, 1)],
        shown="\n".join(map(repr, (whole, *whole.maps, whole.start))),
        of_one_run=[of_one_run.distances, of_one_run.maps, of_one_run.untouched_masks],
        frame_of_one_run=of_one_run.to_pandas(),
        broken=refusals(assemble, *GOOD),
        other_bytes=[
            lambda: assemble([]),
            lambda: assemble([GOOD[0], chunk(0, b"1", index=1)]),
            lambda: assemble([GOOD[0], chunk(0, b"12"), chunk(1, b"23")]),
            lambda: assemble([header(maps=[inspection.InspectedMaps(rows=1, columns=1, format=inspection.MAP_FORMAT_UINT8)])]),
        ],
    )


def test_the_request(stored) -> None:
    def asked(**fields: Any) -> inspection.InspectRequest:
        return sent("inspect", text=("A [MASK].", "B."), **{**DEFAULTS, **fields})

    view = bertscope.MapView
    stored(
        request=asked(words=True, top_k=3, maps=[view(), view({2: None}, rows=(0, 2), untouched=True)]),
        refused=[lambda: asked(maps=[3]), lambda: asked(maps=[view(), view(rows=3)]), lambda: asked(maps=view({}))],
    )
