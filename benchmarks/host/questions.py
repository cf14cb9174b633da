"""The calls whose host cost is measured, and the models that they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from bertscope.inference import open_inference_pb2 as inference
from bertscope.v1 import attention_pb2, classification_pb2, cloze_pb2, common_pb2
from bertscope_service.embedded import EMBEDDED_FOLDER
from google.protobuf.message import Message
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification, PreTrainedTokenizerFast

from benchmarks.lib.texts import cloze_texts, texts_of_lengths

SMALL, LARGE, LABELS = "small", "large", "labels"
TEXTS_PER_CALL = (1, 8, 64, 256)
LONG_TEXTS_PER_CALL = (64, 256)
LONG = texts_of_lengths([128] * max(LONG_TEXTS_PER_CALL), mask=True)
"""Texts of 128 tokens."""


@dataclass(frozen=True, slots=True)
class Question:
    """A call: what it is, its method, its request, and how many texts it holds."""

    name: str
    method: str
    request: bytes
    texts: int
    streaming: bool = False
    refused: bool = False


def write_models(folder: Path) -> list[str]:
    """Writes models of one layer x 16: `small` has the words of the texts alone, `large` the embedded model's vocabulary,
    `labels` two labels. Returns their --model flags."""
    torch.manual_seed(5)
    large = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER)
    for name, tokenizer in ((SMALL, _small_vocabulary(large)), (LARGE, large), (LABELS, large)):
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        )
        (BertForSequenceClassification if name == LABELS else BertForMaskedLM)(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return [flag for name in (SMALL, LARGE, LABELS) for flag in ("--model", f"{name}={folder / name}")]


def _small_vocabulary(large: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Returns the tokenizer with those entries alone that the texts use."""
    specials = [large.pad_token, large.unk_token, large.cls_token, large.sep_token, large.mask_token]
    used = {piece for text in [*cloze_texts(), *LONG] for piece in large.tokenize(text)}
    vocabulary = {piece: number for number, piece in enumerate([*specials, *sorted(used - set(specials))])}
    backend = Tokenizer.from_str(large.backend_tokenizer.to_str())
    backend.model = WordPiece(vocabulary, unk_token=large.unk_token)
    cls, sep = large.cls_token, large.sep_token
    backend.post_processor = TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=large.pad_token,
        unk_token=large.unk_token,
        cls_token=cls,
        sep_token=sep,
        mask_token=large.mask_token,
        model_max_length=512,
    )


def questions() -> list[Question]:
    """Returns all calls."""
    found = []
    for model in (SMALL, LARGE):
        calls = [("", cloze_texts()[:count]) for count in TEXTS_PER_CALL]
        calls += [(", 128 tokens", LONG[:count]) for count in LONG_TEXTS_PER_CALL]
        for length, texts in calls:
            request = cloze_pb2.FillMaskRequest(model=f"models/{model}", texts=texts, top_k=5)
            name = f"FillMask, {model} vocabulary{length}"
            found.append(_question(name, "bertscope.v1.ClozeService/FillMask", request, len(texts)))
    for count in (1, 64):
        inputs = [common_pb2.TextInput(text=text) for text in cloze_texts()[:count]]
        classify = classification_pb2.ClassifyRequest(model=f"models/{LABELS}", inputs=inputs)
        found.append(_question("Classify", "bertscope.v1.ClassificationService/Classify", classify, count))
    ids = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER)(cloze_texts()[:1] * 8)["input_ids"]
    for outputs in (("last_hidden_state",), ("token_id", "probability")):
        for count in (1, 8):
            infer = _infer(ids[:count], outputs)
            found.append(
                _question(
                    f"ModelInfer, {' and '.join(outputs)}",
                    "inference.GRPCInferenceService/ModelInfer",
                    infer,
                    count,
                )
            )
    inputs = [common_pb2.TextInput(text=text) for text in cloze_texts()[:8]]
    extract = attention_pb2.ExtractAttentionRequest(model=f"models/{LARGE}", inputs=inputs)
    found.append(_question("ExtractAttention", "bertscope.v1.AttentionService/ExtractAttention", extract, 8, streaming=True))
    refused = cloze_pb2.FillMaskRequest(model=f"models/{SMALL}", texts=cloze_texts()[:1], top_k=5)
    found.append(replace(_question("FillMask, refused", "bertscope.v1.ClozeService/FillMask", refused, 1), refused=True))
    return found


def long_stream() -> Question:
    """Returns a call whose reply is far larger than gRPC sends to a reader that pauses."""
    text = common_pb2.TextInput(text=" ".join(["word"] * 500))
    request = attention_pb2.ExtractAttentionRequest(model=f"models/{LARGE}", inputs=[text] * 64)
    return _question("ExtractAttention", "bertscope.v1.AttentionService/ExtractAttention", request, 64, streaming=True)


def _infer(ids: list[list[int]], outputs: tuple[str, ...]) -> inference.ModelInferRequest:
    tensor = inference.ModelInferRequest.InferInputTensor(name="input_ids", datatype="INT64", shape=[len(ids), len(ids[0])])
    raw = torch.tensor(ids, dtype=torch.int64).numpy().tobytes()
    asked = [inference.ModelInferRequest.InferRequestedOutputTensor(name=name) for name in outputs]
    return inference.ModelInferRequest(model_name=LARGE, inputs=[tensor], outputs=asked, raw_input_contents=[raw])


def _question(name: str, method: str, request: Message, texts: int, *, streaming: bool = False) -> Question:
    return Question(name, f"/{method}", request.SerializeToString(), texts, streaming)
