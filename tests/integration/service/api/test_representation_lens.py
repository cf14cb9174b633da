"""ReadLayers through gRPC: the last layer is what FillMask answers, and what can't be read is refused by its field."""

import pytest
from bertscope.v1 import representation_lens_pb2 as lens

from tests.support.calls import call
from tests.support.harness import Host

TEXT = "The [MASK] sat on the [MASK]."


@pytest.mark.parametrize("model", ["models/bert", "models/roberta"])
def test_the_last_layer_answers_what_fill_mask_does(host: Host, model: str) -> None:
    zero = {"layer": 1, "heads": [2], "mode": "MODE_ZERO"}
    for interventions in ([], [zero]):
        asked = {"model": model, "top_k": 3, "interventions": interventions}
        reply = call(host, "ReadLayers", inputs=[{"text": TEXT}], **asked)
        (filled,) = call(host, "FillMask", texts=[TEXT], **asked).results
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
    given = {"text": "A bird.", "text_pair": "The cat sat.", "spans": [{"start": 4, "end": 7, "segment": 1}]}
    asked = {"layers": [4, 2], "candidates": ["the", "cat"], "normalisation": lens.LENS_NORMALISATION_FINAL}
    (text,) = call(host, "ReadLayers", inputs=[given], **asked).results
    (position,) = text.positions
    assert (position.token.text, position.token.segment, position.mask) == ("cat", 1, False)
    assert [entry.token for entry in position.candidates] == ["the", "cat"]
    assert len(position.layers) == 2
    for layer in position.layers:
        assert (layer.own.log_probability, layer.own.rank) == (layer.candidates[1].log_probability, layer.candidates[1].rank)
        assert len(layer.top) == 5
    everything = call(host, "ReadLayers", inputs=[{"text": "The cat."}], all_pieces=True).results[0]
    assert [position.token.special for position in everything.positions] == [True, False, False, False, True]
