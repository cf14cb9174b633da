"""ExtractAttention through gRPC gives what transformers gives, in chunks that cover each tensor exactly once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bertscope_service.analyses.layer_steps
import numpy as np
import pytest
import torch
from bertscope.v1 import attention_pb2, common_pb2
from numpy.typing import NDArray

from tests.support.calls import call
from tests.support.harness import Host, Maps, read_maps
from tests.support.plain import Plain
from tests.support.rounding import BOTH_SIDES
from tests.support.sweeps import text_input

CLOSE = BOTH_SIDES
"""Maps of different heads and layers differ by more than a hundredfold of this."""

TEXTS = (
    ("The cat sat.",),
    ("The nurse told the doctor that her patient had been waiting since 7:45 a.m.",),
    ("The café in Zürich serves a naïve soufflé for 3.50 €.",),
)
PAIR = ("The unhappy player sat.", "The children replayed the song 😀, unrecognizably.")


def maps_of(plain: Plain, *texts: str) -> NDArray[Any]:
    """[layers, heads, tokens, tokens]"""
    return torch.cat(plain.run(*texts, output_attentions=True).attentions).numpy()  # type: ignore[no-any-return]


def responses(host: Host, model: str, texts: Sequence[tuple[str, ...]], **fields: Any) -> Any:
    return call(host, "ExtractAttention", model=f"models/{model}", inputs=[text_input(*text) for text in texts], **fields)


def extract(host: Host, model: str, texts: Sequence[tuple[str, ...]], **fields: Any) -> list[Maps]:
    return read_maps(responses(host, model, texts, **fields))


def test_maps_of_many_texts_equal_a_run_of_transformers_text_by_text(host: Host, model: str, plain: Plain) -> None:
    for maps, texts in zip(extract(host, model, [*TEXTS, PAIR]), [*TEXTS, PAIR], strict=True):
        expected = maps_of(plain, *texts)
        assert list(maps.header.attention.shape) == list(expected.shape)
        np.testing.assert_allclose(maps.values, expected, atol=CLOSE)
        np.testing.assert_allclose(maps.values.sum(-1), 1, atol=1e-5)
        assert list(maps.header.layers) == list(range(expected.shape[0]))
        assert list(maps.header.heads) == list(range(expected.shape[1]))
    (half,) = extract(host, model, TEXTS[:1], dtype=common_pb2.DATA_TYPE_FLOAT16)
    assert half.values.dtype == np.float16
    np.testing.assert_allclose(half.values, maps_of(plain, *TEXTS[0]), atol=5e-4)


def test_layers_and_heads_come_in_the_order_asked(host: Host, model: str, plain: Plain) -> None:
    (maps,) = extract(host, model, TEXTS[1:2], layers=[3, 0, 2], heads=[2, 1])
    assert (list(maps.header.layers), list(maps.header.heads)) == ([3, 0, 2], [2, 1])
    np.testing.assert_allclose(maps.values, maps_of(plain, *TEXTS[1])[[3, 0, 2]][:, [2, 1]], atol=CLOSE)


def test_words_receive_the_sum_and_give_the_mean_of_their_pieces(host: Host, model: str, plain: Plain) -> None:
    (maps,) = extract(host, model, [PAIR], level=attention_pb2.ATTENTION_LEVEL_WORD)
    encoded = plain.encode(*PAIR)
    groups: list[list[int]] = []
    keys: list[Any] = []
    for index, key in enumerate(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True)):
        if key[0] is None or not keys or keys[-1] != key:
            groups.append([])
            keys.append(key)
        groups[-1].append(index)
    ids = encoded["input_ids"][0].tolist()
    assert len(groups) < len(ids)
    pieces = maps_of(plain, *PAIR)
    received = np.stack([pieces[..., group].sum(-1) for group in groups], axis=-1)
    expected = np.stack([received[..., group, :].mean(-2) for group in groups], axis=-2)
    np.testing.assert_allclose(maps.values, expected, atol=CLOSE)
    for token, group, key in zip(maps.header.tokens, groups, keys, strict=True):
        assert list(token.pieces) == plain.tokenizer.convert_ids_to_tokens([ids[index] for index in group])
        assert token.special == (key[0] is None)
        assert token.HasField("id") == (len(group) == 1)
        if not token.special:
            assert (token.segment, token.word) == key
            assert token.text == PAIR[token.segment][token.start : token.end]


def test_tokens_say_what_rows_and_columns_stand_for(host: Host, model: str, plain: Plain) -> None:
    (maps,) = extract(host, model, [PAIR])
    encoded = plain.encode(*PAIR)
    ids, tokens = encoded["input_ids"][0].tolist(), maps.header.tokens
    assert [token.id for token in tokens] == ids
    assert [token.text for token in tokens] == plain.tokenizer.convert_ids_to_tokens(ids)
    assert [token.word if token.HasField("word") else None for token in tokens] == encoded.word_ids()
    for token, which in zip(tokens, encoded.sequence_ids(), strict=True):
        assert not token.pieces
        assert token.special == (which is None)
        if token.special:
            assert (token.start, token.end) == (0, 0)
        else:
            covered = PAIR[which][token.start : token.end]
            assert (token.segment, covered) == (which, covered.strip())
    assert (1, PAIR[1].index("children")) in {(token.segment, token.start) for token in tokens}


def test_a_text_of_many_chunks_arrives_whole_and_stepwise(
    host: Host, model: str, plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertscope_service.api.tensor_chunks.CHUNK_BYTES", 1000)
    # One layer a step, each continued from the one before.
    monkeypatch.setattr(bertscope_service.analyses.layer_steps, "STEP_BYTES", 1)
    replies = responses(host, model, TEXTS, layers=[2, 0, 3])
    sizes = [len(reply.chunk.data) for reply in replies if reply.HasField("chunk")]
    assert max(sizes) == 1000
    assert len(sizes) > 12
    for maps, text in zip(read_maps(replies), TEXTS, strict=True):
        np.testing.assert_allclose(maps.values, maps_of(plain, *text)[[2, 0, 3]], atol=CLOSE)


def test_a_long_text_is_cut_only_when_asked_and_the_header_says_by_how_much(host: Host, model: str) -> None:
    maps, short = extract(host, model, [("the cat " * 60,), TEXTS[0]], truncate=True)
    assert len(maps.header.tokens) == 64
    assert maps.header.truncated_tokens > 50
    assert maps.header.tokens[-1].special
    assert short.header.truncated_tokens == 0


def test_a_zeroed_head_equals_a_checkpoint_whose_output_projection_ignores_it(host: Host, checkpoints: dict[str, Path]) -> None:
    plain = Plain(checkpoints["bert"])
    plain.zero(1, 2)
    (maps,) = extract(host, "bert", TEXTS[1:2], interventions=[{"layer": 1, "heads": [2], "mode": "MODE_ZERO"}])
    np.testing.assert_allclose(maps.values, maps_of(plain, *TEXTS[1]), atol=CLOSE)
