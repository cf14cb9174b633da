"""ExtractAttention through gRPC gives what transformers gives, in chunks that cover each tensor exactly once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bertscope_service.analyses.layer_steps
import numpy as np
import pytest
import torch
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import common_pb2
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from tests.support.harness import CALL_SECONDS, Host, Maps, read_maps
from tests.support.rounding import BOTH_SIDES

Intervention = common_pb2.HeadIntervention
CLOSE = BOTH_SIDES
"""Maps of different heads and layers differ by more than a hundredfold of this."""
TEXTS = (
    "The cat sat.",
    "The nurse told the doctor that her patient had been waiting since 7:45 a.m.",
    "The café in Zürich serves a naïve soufflé for 3.50 €.",
)
PAIR = ("The unhappy player sat.", "The children replayed the song 😀, unrecognizably.")


class Reference:
    """An independent run of a checkpoint, one text at a time, without padding."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    @torch.no_grad()
    def attention(self, *texts: str) -> NDArray[Any]:
        """[layers, heads, tokens, tokens]"""
        encoded = self.tokenizer(*texts, return_tensors="pt")
        return torch.cat(self.model(**encoded, output_attentions=True).attentions).numpy()


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def reference(model: str, checkpoints: dict[str, Path]) -> Reference:
    return Reference(checkpoints[model])


def inputs(texts: Sequence[str | tuple[str, str]]) -> list[common_pb2.TextInput]:
    return [
        common_pb2.TextInput(text=text) if isinstance(text, str) else common_pb2.TextInput(text=text[0], text_pair=text[1])
        for text in texts
    ]


def extract(host: Host, model: str, texts: Sequence[str | tuple[str, str]], **fields: Any) -> list[Maps]:
    request = attention.ExtractAttentionRequest(model=f"models/{model}", inputs=inputs(texts), **fields)
    return read_maps(host.attention.ExtractAttention(request, timeout=CALL_SECONDS))


def test_maps_of_many_texts_equal_a_run_of_transformers_text_by_text(host: Host, model: str, reference: Reference) -> None:
    found = extract(host, model, [*TEXTS, PAIR])
    assert len(found) == 4
    for maps, texts in zip(found, [(text,) for text in TEXTS] + [PAIR], strict=True):
        expected = reference.attention(*texts)
        assert list(maps.header.attention.shape) == list(expected.shape)
        np.testing.assert_allclose(maps.values, expected, atol=CLOSE)
        np.testing.assert_allclose(maps.values.sum(-1), 1, atol=1e-5)
        assert list(maps.header.layers) == list(range(expected.shape[0]))
        assert list(maps.header.heads) == list(range(expected.shape[1]))


def test_layers_and_heads_come_in_the_order_asked(host: Host, model: str, reference: Reference) -> None:
    (maps,) = extract(host, model, TEXTS[1:2], layers=[3, 0, 2], heads=[2, 1])
    assert (list(maps.header.layers), list(maps.header.heads)) == ([3, 0, 2], [2, 1])
    np.testing.assert_allclose(maps.values, reference.attention(TEXTS[1])[[3, 0, 2]][:, [2, 1]], atol=CLOSE)


def test_half_precision_tensors_are_rounded_ones(host: Host, model: str, reference: Reference) -> None:
    (maps,) = extract(host, model, TEXTS[:1], dtype=common_pb2.DATA_TYPE_FLOAT16)
    assert maps.values.dtype == np.float16
    np.testing.assert_allclose(maps.values, reference.attention(TEXTS[0]), atol=5e-4)


def test_words_receive_the_sum_and_give_the_mean_of_their_pieces(host: Host, model: str, reference: Reference) -> None:
    (maps,) = extract(host, model, [PAIR], level=attention.ATTENTION_LEVEL_WORD)
    encoded = reference.tokenizer(*PAIR)
    groups: list[list[int]] = []
    keys: list[Any] = []
    for index, key in enumerate(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True)):
        if key[0] is None or not keys or keys[-1] != key:
            groups.append([])
            keys.append(key)
        groups[-1].append(index)
    assert len(groups) < len(encoded["input_ids"])
    pieces = reference.attention(*PAIR)
    received = np.stack([pieces[..., group].sum(-1) for group in groups], axis=-1)
    expected = np.stack([received[..., group, :].mean(-2) for group in groups], axis=-2)
    np.testing.assert_allclose(maps.values, expected, atol=CLOSE)
    tokens = maps.header.tokens
    assert len(tokens) == len(groups)
    ids = encoded["input_ids"]
    for token, group, key in zip(tokens, groups, keys, strict=True):
        assert list(token.pieces) == reference.tokenizer.convert_ids_to_tokens([ids[index] for index in group])
        assert token.special == (key[0] is None)
        assert token.HasField("id") == (len(group) == 1)
        if not token.special:
            assert (token.segment, token.word) == key
            assert token.text == PAIR[token.segment][token.start : token.end]


def test_tokens_say_what_rows_and_columns_stand_for(host: Host, model: str, reference: Reference) -> None:
    (maps,) = extract(host, model, [PAIR])
    encoded = reference.tokenizer(*PAIR)
    tokens = maps.header.tokens
    assert [token.id for token in tokens] == encoded["input_ids"]
    assert [token.text for token in tokens] == reference.tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    assert [token.special for token in tokens] == [which is None for which in encoded.sequence_ids()]
    assert [token.word if token.HasField("word") else None for token in tokens] == encoded.word_ids()
    for token, which in zip(tokens, encoded.sequence_ids(), strict=True):
        assert not token.pieces
        if which is None:
            assert (token.start, token.end) == (0, 0)
        else:
            assert token.segment == which
            covered = PAIR[which][token.start : token.end]
            assert covered == covered.strip()
    spans = {(token.segment, token.start, token.end) for token in tokens}
    second = PAIR[1].index("children")
    assert any(segment == 1 and start == second for segment, start, _ in spans)


def test_a_text_of_many_chunks_arrives_whole_and_stepwise(
    host: Host, model: str, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertscope_service.api.tensor_chunks.CHUNK_BYTES", 1000)
    # One layer a step, each continued from the one before.
    monkeypatch.setattr(bertscope_service.analyses.layer_steps, "STEP_BYTES", 1)
    responses = list(
        host.attention.ExtractAttention(
            attention.ExtractAttentionRequest(model=f"models/{model}", inputs=inputs(TEXTS), layers=[2, 0, 3]),
            timeout=CALL_SECONDS,
        )
    )
    sizes = [len(response.chunk.data) for response in responses if response.HasField("chunk")]
    assert max(sizes) == 1000
    assert len(sizes) > 12
    for maps, text in zip(read_maps(responses), TEXTS, strict=True):
        np.testing.assert_allclose(maps.values, reference.attention(text)[[2, 0, 3]], atol=CLOSE)


def test_a_long_text_is_cut_only_when_asked_and_the_header_says_by_how_much(host: Host, model: str) -> None:
    maps, short = extract(host, model, ["the cat " * 60, "The cat sat."], truncate=True)
    assert len(maps.header.tokens) == 64
    assert maps.header.truncated_tokens > 50
    assert maps.header.tokens[-1].special
    assert short.header.truncated_tokens == 0


def test_a_zeroed_head_equals_a_checkpoint_whose_output_projection_ignores_it(host: Host, checkpoints: dict[str, Path]) -> None:
    reference = Reference(checkpoints["bert"])
    projection = reference.model.encoder.layer[1].attention.output.dense
    with torch.no_grad():
        projection.weight[:, 2 * 8 : 3 * 8] = 0
    plan = [Intervention(layer=1, heads=[2], mode=Intervention.MODE_ZERO)]
    (maps,) = extract(host, "bert", TEXTS[1:2], interventions=plan)
    np.testing.assert_allclose(maps.values, reference.attention(TEXTS[1]), atol=CLOSE)
