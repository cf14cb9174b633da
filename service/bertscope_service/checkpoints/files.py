"""Names of the files that a checkpoint may have, and their maximum sizes."""

from __future__ import annotations

from pathlib import Path

from bertscope_service.encoders.refusals import refused

TOKENIZER_PATTERNS = (
    "tokenizer*",
    "vocab.*",
    "merges.txt",
    "*.model",
    "special_tokens_map.json",
    "added_tokens.json",
)
"""All files that transformers may read a tokenizer from. A copy that lacks one of them may tokenise differently."""

MODULES, PROMPTS, READING = "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"
POOLING_CONFIG = "*_Pooling/config.json"
DECLARED_POOLING_PATTERNS = (MODULES, PROMPTS, READING, POOLING_CONFIG)
"""All files that declare how sentence-transformers makes one vector of a text."""

MAX_SETTINGS_BYTES = 16 * 1024 * 1024
MAX_TOKENIZER_BYTES = 64 * 1024 * 1024
"""Maximum size of vocabulary files; a quarter of a million entries take 10 to 35 MB as JSON."""


def check_size(path: Path, largest: int) -> None:
    """Raises FailedPrecondition for a file that is too large for its name; OSError if it does not exist."""
    size = path.stat().st_size
    if size > largest:
        raise refused(path, "its size", size, f"allowed are up to {largest} bytes")
