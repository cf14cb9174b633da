"""Requests of the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np
from bertscope.inference import open_inference_pb2 as oip
from numpy.typing import NDArray

from bertscope_service.analyses.tensors import HIDDEN, LABEL, LOGITS, PROBABILITY, TOKEN, TensorKind, TensorQuery, given_by
from bertscope_service.api.checks import check_text, check_texts
from bertscope_service.api.inference_tensors import Inputs
from bertscope_service.api.limits import RequestLimits
from bertscope_service.checkpoints.mask_names import MASK as MASK_TEXT
from bertscope_service.checkpoints.tokenized_text import check_length
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument, NotFound, Unsupported
from bertscope_service.models.loaded import LoadedModel

TEXT, IDS, MASK, SEGMENTS = "text", "input_ids", "attention_mask", "token_type_ids"
NAMES = (TEXT, IDS, MASK, SEGMENTS)
VERSION = "1"
DEFAULT_TOKENS = 5
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Maximum size of the tensors in a reply, bytes: the logits of a BERT for some 500 tokens."""

_KINDS: WeakKeyDictionary[LoadedModel, dict[str, TensorKind]] = WeakKeyDictionary()

CHANGING = {"classification", "shared_memory_region"}
"""Parameters of an output that would change the reply; a server may ignore any other."""


def model_name(name: str) -> str:
    """Returns the resource name, "models/bert" for "bert" too. Raises InvalidArgument for an empty one."""
    if not name:
        raise InvalidArgument("model_name", "the model's name is empty; write the id of a loaded one", "NO_MODEL")
    return name if name.startswith("models/") else f"models/{name}"


def check_version(version: str, model: str) -> None:
    """Checks a requested version; a model has only one. Raises NotFound."""
    if version not in ("", VERSION):
        message = f"{model} has no version {version!r}, it has {VERSION!r} alone; leave the version out"
        raise NotFound(message, "VERSION_NOT_FOUND", model=model, version=version)


def parse_infer(request: oip.ModelInferRequest, model: LoadedModel, limits: RequestLimits) -> TensorQuery:
    """Converts the request to a query. Raises InvalidArgument, Unsupported."""
    inputs = Inputs(request)
    strange = [name for name in inputs.names if name not in NAMES]
    if strange:
        message = f"{model.name} has no input {strange[0]!r}; send {TEXT}, or {IDS} with {MASK} and {SEGMENTS} if need be"
        raise InvalidArgument(strange[0] or "inputs", message, "UNKNOWN_INPUT")
    if (TEXT in inputs) == (IDS in inputs):
        what = "are both there" if TEXT in inputs else "are both missing"
        raise InvalidArgument("inputs", f"the inputs {TEXT} and {IDS} {what}; send one of them", "INPUTS_MISMATCH")
    if TEXT in inputs and len(inputs.names) > 1:
        others = ", ".join(name for name in inputs.names if name != TEXT)
        message = f"the input {TEXT} comes with {others}; send it alone"
        raise InvalidArgument("inputs", message, "INPUTS_MISMATCH")
    shape, field = model.encoder.shape, TEXT if TEXT in inputs else IDS
    outputs = _outputs(request, model, field)
    top_k = _top_k(request, shape)
    if field == TEXT:
        sequences = _read_texts(inputs, model.tokenizer, limits)
        length = max(map(len, sequences))
    else:
        sequences, length = _read_ids(inputs, shape, limits)
    mask = MASK_TEXT if field == TEXT else f"{model.tokenizer.mask_id}, the mask's id,"
    query = TensorQuery(sequences, length, outputs, top_k, field, mask)
    if query.reply_bytes > MAX_REPLY_BYTES:
        names = ", ".join(output.name for output in outputs)
        message = (
            f"the outputs {names} take {query.reply_bytes} bytes and a reply holds {MAX_REPLY_BYTES}; send fewer or shorter "
            "texts, or ask for less"
        )
        raise InvalidArgument("outputs", message, "REPLY_TOO_LARGE", limit=MAX_REPLY_BYTES)
    return query


def kinds_of(model: LoadedModel) -> dict[str, TensorKind]:
    """Returns every tensor that a model gives, by name; computed once for each model."""
    found = _KINDS.get(model)
    if found is None:
        found = _KINDS[model] = given_by(model.encoder.shape, model.encoder.capabilities, model.tokenizer)
    return found


def _outputs(request: oip.ModelInferRequest, model: LoadedModel, field: str) -> tuple[TensorKind, ...]:
    """Returns the requested outputs, or the input's default ones if there are none."""
    kinds = kinds_of(model)
    # One more than there are kinds is enough to find a duplicate or an unknown name.
    asked = request.outputs[: len(kinds) + 1]
    for output in asked:
        refused = CHANGING.intersection(output.parameters)
        if refused:
            message = (
                f"outputs: {output.name!r} has the parameter {min(refused)!r}, which bertscope does not know; leave it out"
            )
            raise InvalidArgument("outputs", message, "UNKNOWN_PARAMETER")
    names = tuple(output.name for output in asked) or _usual(kinds, field)
    if len(set(names)) < len(names):
        raise InvalidArgument("outputs", f"outputs {', '.join(names)} name one twice; ask for each once", "DUPLICATE")
    if not kinds:
        message = f"{model.name} drops tokens and has no head, so it gives no tensors; load another"
        raise Unsupported(message, "NO_OUTPUT", model=model.name)
    missing = [name for name in names if name not in kinds]
    if missing:
        message = f"{model.name} has no output {missing[0]!r}; it gives {', '.join(kinds)}"
        raise Unsupported(message, "NO_OUTPUT", model=model.name, output=missing[0])
    return tuple(kinds[name] for name in names)


def _usual(kinds: Mapping[str, TensorKind], field: str) -> tuple[str, ...]:
    """Returns the default outputs: words and probabilities for texts, numbers for ids.

    The logits of a masked language model, which are many, are a default only if there is nothing else.
    """
    words = next(((name, PROBABILITY) for name in (LABEL, TOKEN) if name in kinds), ())
    numbers = next(((name,) for name in ((LOGITS,) if LABEL in kinds else (HIDDEN, LOGITS)) if name in kinds), ())
    return words or numbers if field == TEXT else numbers or words


def _top_k(request: oip.ModelInferRequest, shape: Shape) -> int:
    """Returns the number of tokens or labels; load generators send numbers as strings and as doubles."""
    most, what = (len(shape.labels), "labels") if shape.labels else (shape.vocabulary_size, "tokens")
    if "top_k" not in request.parameters:
        return most if shape.labels else min(DEFAULT_TOKENS, most)
    parameter = request.parameters["top_k"]
    chosen = parameter.WhichOneof("parameter_choice") or "none"
    value = getattr(parameter, chosen, None)
    text = value if isinstance(value, str) else repr(value)
    number = int(text.removesuffix(".0")) if text.removesuffix(".0").isdecimal() and len(text) < 20 else 0
    if not 1 <= number <= most:
        message = f"top_k is {text}; ask for 1 to {most}, the number of {what}"
        raise InvalidArgument("parameters.top_k", message, "TOP_K_OUT_OF_RANGE")
    return number


def _read_texts(inputs: Inputs, tokenizer: TextTokenizer, limits: RequestLimits) -> list[TokenSequence]:
    shape = inputs.shape(TEXT, "[texts] or [texts, 1]", (1, 2))
    if len(shape) == 2 and shape[1] != 1:
        message = f"{TEXT} has shape {list(shape)}; it must be [texts] or [texts, 1], one text after the other"
        raise InvalidArgument(TEXT, message, "SHAPE_MISMATCH")
    check_texts(range(shape[0]), TEXT, limits)
    sequences = []
    for index, word in enumerate(inputs.words(TEXT)):
        field = f"{TEXT}[{index}]"
        try:
            text = word.decode()
        except UnicodeDecodeError as error:
            message = f"{field} is not UTF-8 (byte {error.start}); encode texts as UTF-8"
            raise InvalidArgument(field, message, "NOT_UTF8") from error
        tokenized = tokenizer.encode(check_text(text, field, limits))
        check_length(tokenized, field, tokenizer.max_tokens, cuttable=False)
        sequences.append(tokenized.sequence)
    return sequences


def _read_ids(inputs: Inputs, shape: Shape, limits: RequestLimits) -> tuple[list[TokenSequence], int]:
    """Returns the texts without their padding, and their length with it."""
    form = "[texts, length]"
    size = inputs.shape(IDS, form, (2,))
    if size[0] > limits.texts:
        message = f"{IDS} has {size[0]} texts and this server takes {limits.texts}; send them in parts"
        raise InvalidArgument(IDS, message, "TOO_MANY_TEXTS", limit=limits.texts)
    for name in (MASK, SEGMENTS):
        if name in inputs and inputs.shape(name, form, (2,)) != size:
            message = f"{name} has shape {list(inputs.shape(name, form, (2,)))} and {IDS} {list(size)}; they must be equal"
            raise InvalidArgument(name, message, "SHAPE_MISMATCH")
    if size[1] > shape.max_tokens:
        message = f"{IDS} has {size[1]} tokens in a text, padding included, and the model reads {shape.max_tokens}; shorten it"
        raise InvalidArgument(IDS, message, "TEXT_TOO_LONG", tokens=size[1], max_tokens=shape.max_tokens)
    ids = inputs.integers(IDS)
    check_range(ids, IDS, shape.vocabulary_size, "the vocabulary")
    mask = inputs.integers(MASK) if MASK in inputs else None
    lengths = None if mask is None or (mask == 1).all() else _lengths(mask)
    if SEGMENTS in inputs:
        segments = inputs.integers(SEGMENTS)
        check_range(segments, SEGMENTS, shape.segments, "the model's segments")
    else:
        segments = np.zeros_like(ids)
    if lengths is None:
        return list(map(TokenSequence, ids, segments)), size[1]
    return [TokenSequence(*(row[:end] for row in rows)) for end, *rows in zip(lengths, ids, segments, strict=True)], size[1]


def check_range(values: NDArray[np.int64], name: str, count: int, what: str) -> None:
    """Raises InvalidArgument for a value that is not 0 to count - 1."""
    # As unsigned numbers, negative ones are the largest.
    if int(values.view(np.uint64).max()) >= count:
        row, place = np.argwhere((values < 0) | (values >= count))[0].tolist()
        message = f"{name}[{row}, {place}] is {values[row, place]}; {what} goes from 0 to {count - 1}"
        raise InvalidArgument(f"{name}[{row}, {place}]", message, "ID_OUT_OF_RANGE")


def _lengths(mask: NDArray[np.int64]) -> list[int]:
    """Returns the number of real tokens of each text: its ones, which zeros may follow."""
    lengths = mask.sum(axis=1)
    wrong = (mask != (np.arange(mask.shape[1]) < lengths[:, None])).any(axis=1) | (lengths < 1)
    if wrong.any():
        row = int(wrong.argmax())
        message = (
            f"{MASK}[{row}] is not ones and then zeros; put padding behind the text, which has at least one token; models "
            "disagree about other masks"
        )
        raise InvalidArgument(f"{MASK}[{row}]", message, "MASK_UNUSABLE")
    return [int(length) for length in lengths]
