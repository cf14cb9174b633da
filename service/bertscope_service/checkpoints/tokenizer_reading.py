"""Reads the tokenizer of a checkpoint folder, and what the folder says of how it is used."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from bertscope_service.checkpoints.amino_acids import backend_of, check_amino_acids, is_amino_acids
from bertscope_service.checkpoints.external_references import check_tokenizer
from bertscope_service.checkpoints.tokenizer_growth import check_growth, parts_in, parts_of
from bertscope_service.encoders.onnx.helper_process import HelperError
from bertscope_service.encoders.refusals import shown
from bertscope_service.errors import FailedPrecondition, LoadAbandonedError

logger = logging.getLogger(__name__)

TOKENIZER_FILES = ("tokenizer.json", "vocab.*", "*.model")
SERIALIZED = "tokenizer.json"
SETTINGS = "tokenizer_config.json"


def read_tokenizer(folder: Path, check: Callable[[], None] = lambda: None) -> tuple[Tokenizer, Any, float]:
    """Returns the tokenizer that splits texts, without truncation, padding or dropout, transformers' own with its settings, and
    how much longer it makes texts; see `check_growth`, which calls `check`.

    Raises FailedPrecondition if the folder has no usable one.
    """
    if not any(path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)):
        # transformers would invent a vocabulary of special tokens only.
        message = f"{folder} has no tokenizer; add its tokenizer.json"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)
    try:
        check_tokenizer(folder)
        # Before it is read, which runs its steps on added tokens.
        written = parts_in(folder / SERIALIZED)
        growth = check_growth(folder, written, check)
        tokenizer = _read(folder)
        if is_amino_acids(tokenizer):
            check_amino_acids(tokenizer, folder)
            backend = backend_of(tokenizer)
        else:
            backend = tokenizer.backend_tokenizer
        # transformers may have put other steps into their place.
        if (parts := parts_of(backend)) != written:
            growth = check_growth(folder, parts, check)
    except (FailedPrecondition, LoadAbandonedError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of Rust code is no Exception
        raise _unreadable(folder, error) from error
    backend.no_truncation()
    backend.no_padding()
    _end_dropout(backend, folder)
    _warn_of_lowering(backend, folder)
    return backend, tokenizer, growth


def reads_segments(folder: Path) -> bool:
    """Returns whether the model of a folder is given the segments of a pair: unless its tokenizer_config.json names the model's
    inputs and token_type_ids is not among them. Raises ValueError."""
    path = folder / SETTINGS
    settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    names = settings.get("model_input_names")
    return not isinstance(names, list) or "token_type_ids" in names


def _read(folder: Path) -> Any:
    """Returns the tokenizer of the class that the folder names. If that is written in Python, or lacks a package, the
    tokenizer.json says all that it takes."""
    serialized = (folder / SERIALIZED).is_file()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception:
        if not serialized:
            raise
    else:
        if is_amino_acids(tokenizer) or hasattr(tokenizer, "backend_tokenizer"):
            return tokenizer
        if not serialized:
            raise TypeError(f"transformers' {type(tokenizer).__name__} is written in Python and has no {SERIALIZED}")
    return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def _unreadable(folder: Path, error: BaseException) -> FailedPrecondition:
    what = str(error) if isinstance(error, HelperError) else f"{type(error).__name__}: {error}"
    why = shown(" ".join(what.split()))
    if (folder / SERIALIZED).is_file():
        remedy = f"its {SERIALIZED} must be one of the tokenizers library; save it again"
    else:
        remedy = f"it needs a {SERIALIZED}"
    message = f"the tokenizer in {folder} can't be read ({why}): {remedy}"
    return FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)


def _end_dropout(backend: Tokenizer, folder: Path) -> None:
    """Turns off the dropout of merges (Provilkov et al. 2020), which is meant for training: a text has one score."""
    model = backend.model
    if isinstance(model, models.BPE) and model.dropout:
        logger.warning(
            "the tokenizer in %s drops merges at random (dropout %g); this server turns that off", folder, model.dropout
        )
        model.dropout = None


def _warn_of_lowering(backend: Tokenizer, folder: Path) -> None:
    """Warns of a vocabulary with capitals that the texts lose, because no file says that they are kept."""
    normalizer = backend.normalizer
    if (folder / SETTINGS).is_file() or not isinstance(normalizer, normalizers.BertNormalizer) or not normalizer.lowercase:
        return
    special = {token.content for token in backend.get_added_tokens_decoder().values()}
    cased = [entry for entry in backend.get_vocab() if entry != entry.lower() and entry not in special]
    if cased:
        logger.warning(
            "texts are lowered, and %d entries of the vocabulary in %s have capitals, such as %s; if the model is cased, add a "
            'tokenizer_config.json with {"do_lower_case": false}',
            len(cased),
            folder,
            shown(min(cased)),
        )
