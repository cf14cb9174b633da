"""Checks all statements in a source's files before a model is read: in some hundredths of a second, whatever their numbers are.

A config.json names sizes, safetensors files have a header with shapes, a tokenizer has ids, a classifier labels. Each of them
may be wrong, cut short or not belong to the others. A library that trusts them allocates gigabytes, builds a thousand layers
or fails much later, in a call. The check compares them; a contradiction is one error that names the file, the field, the found
and the allowed value.
"""

from __future__ import annotations

from typing import Any

from bertscope_service.checkpoints.bounds import check_numbers
from bertscope_service.checkpoints.config import check_config
from bertscope_service.checkpoints.exports import check_export
from bertscope_service.checkpoints.finite import check_finite
from bertscope_service.checkpoints.manifest import MANIFEST, Manifest, read_manifest
from bertscope_service.checkpoints.sources import Kind, Source, read_config
from bertscope_service.checkpoints.tokenizer_files import check_tokenizer_files
from bertscope_service.checkpoints.weights import check_weights
from bertscope_service.encoders.refusals import unreadable
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.former_names import named_today
from bertscope_service.encoders.weight_files import INDEX
from bertscope_service.encoders.weight_headers import Stored, check_index, read_headers


def check_source(source: Source, exported: Manifest | None = None) -> list[Stored]:
    """Returns the tensors that the source's model is read from, as far as they can be checked one by one.

    `exported` describes graphs that were exported from the same weights and config.json and will be run: both were checked
    then, and now the tokenizer alone is. Raises FailedPrecondition for files that can't belong to one model, or to a supported
    one.
    """
    try:
        return _check(source, exported)
    except OSError as error:
        message = f"{source.folder} can't be read: {error.strerror or type(error).__name__}"
        raise unreadable(source.folder, message) from error


def check_source_weights(tensors: list[Stored], precision: str) -> None:
    """Reads the weights that `check_source` found once. Raises FailedPrecondition if one is not a number in `precision`."""
    try:
        check_finite(tensors, precision)
    except OSError as error:
        file = tensors[0].file
        raise unreadable(file.parent, f"{file} can't be read: {error.strerror or type(error).__name__}") from error


def _check(source: Source, exported: Manifest | None) -> list[Stored]:
    path, written = source.folder / "config.json", read_config(source.folder)
    # transformers reads every config.json to choose a tokenizer.
    check_numbers(path, written)
    if source.kind is Kind.FOREIGN:
        check_tokenizer_files(source.folder, _number(written, "vocab_size", 2**31), _number(written, "type_vocab_size", 0))
        return []
    if source.kind is Kind.EXPORT:
        manifest = read_manifest(source.folder)
        if manifest is None:
            return []  # the reader of graphs raises the error
        tensors = check_export(source.folder / MANIFEST, manifest.details)
        _check_tokenizer(source, manifest)
        return tensors
    if exported is not None:
        _check_tokenizer(source, exported)
        return []
    config = check_config(path, written, source.architecture)
    kind = ARCHITECTURES[source.architecture]
    tensors_by_name = read_headers(source.weight_files)
    if len(source.weight_files) > 1 or source.weight_files[0].name != "model.safetensors":
        check_index(source.folder / INDEX, tensors_by_name)
    used = check_weights(path, config, source.architecture, named_today(kind, tensors_by_name))
    check_tokenizer_files(source.folder, config.values.vocab_size, config.values.type_vocab_size if kind.reads_segments else 0)
    return used


def _check_tokenizer(source: Source, exported: Manifest) -> None:
    """Checks the tokenizer's files of a source whose graphs have this manifest."""
    shape = exported.details["shape"]
    check_tokenizer_files(source.folder, shape["vocabulary_size"], shape.get("segments", 1))


def _number(written: Any, key: str, default: int) -> int:
    """Returns a number that may be missing."""
    found = written.get(key)
    return found if isinstance(found, int) else default
