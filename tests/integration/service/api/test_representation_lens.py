"""ReadLayers through gRPC: the last layer is what FillMask answers, and what can't be read is refused by its field."""

import pytest
from bertscope.v1 import cloze_pb2, common_pb2
from bertscope.v1 import representation_lens_pb2 as lens

from tests.support.harness import CALL_SECONDS, Host

TEXT = "The [MASK] sat on the [MASK]."


def read(host: Host, *inputs: lens.LensInput, **fields: object) -> lens.ReadLayersResponse:
    given = inputs or (lens.LensInput(text=TEXT),)
    request = lens.ReadLayersRequest(inputs=given, **fields)  # type: ignore[arg-type]
    return host.representation.ReadLayers(request, timeout=CALL_SECONDS)


@pytest.mark.parametrize("model", ["models/bert", "models/roberta"])
def test_the_last_layer_answers_what_fill_mask_does(host: Host, model: str) -> None:
    zero = common_pb2.HeadIntervention(layer=1, heads=[2], mode=common_pb2.HeadIntervention.MODE_ZERO)
    for interventions in ([], [zero]):
        reply = read(host, model=model, top_k=3, interventions=interventions)
        fill = cloze_pb2.FillMaskRequest(model=model, texts=[TEXT], top_k=3, interventions=interventions)
        (filled,) = host.cloze.FillMask(fill, timeout=CALL_SECONDS).results
        (text,) = reply.results
        assert (list(reply.layers), reply.normalisation) == ([0, 1, 2, 3, 4], lens.LENS_NORMALISATION_NONE)
        assert reply.provenance.model == model
        assert (text.tokens, text.truncated_tokens) == (filled.tokens, 0)
        for position, mask in zip(text.positions, filled.masks, strict=True):
            assert (position.token_index, position.token.start, position.token.end) == (mask.token_index, mask.start, mask.end)
            assert position.mask
            last = position.layers[-1]
            assert not last.HasField("own")
            assert last.divergence == 0
            assert [layer.divergence > 0 for layer in position.layers[:-1]] == [True] * 4
            found = [(one.entry.token, one.entry.id, one.log_probability) for one in last.top]
            assert found == [(one.token, one.piece_ids[0], one.log_probability) for one in mask.predictions]


def test_parts_of_pairs_and_candidates(host: Host) -> None:
    part = common_pb2.CharacterSpan(start=4, end=7, segment=1)
    given = lens.LensInput(text="A bird.", text_pair="The cat sat.", spans=[part])
    final = lens.LENS_NORMALISATION_FINAL
    (text,) = read(host, given, layers=[4, 2], candidates=["the", "cat"], normalisation=final).results
    (position,) = text.positions
    assert (position.token.text, position.token.segment, position.mask) == ("cat", 1, False)
    assert [entry.token for entry in position.candidates] == ["the", "cat"]
    assert len(position.layers) == 2
    for layer in position.layers:
        assert (layer.own.log_probability, layer.own.rank) == (layer.candidates[1].log_probability, layer.candidates[1].rank)
        assert len(layer.top) == 5
    everything = read(host, lens.LensInput(text="The cat."), all_pieces=True).results[0]
    assert [position.token.special for position in everything.positions] == [True, False, False, False, True]
