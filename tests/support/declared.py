"""Checkpoints that declare a pooling, as folders of sentence-transformers do."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MODULES = {
    "Transformer": {"path": "", "type": "sentence_transformers.models.Transformer"},
    "Pooling": {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    "Normalize": {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    "Dense": {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},
}


def declare(
    source: Path,
    target: Path,
    pooling: Mapping[str, Any],
    modules: Sequence[str] = ("Transformer", "Pooling", "Normalize"),
    **files: Mapping[str, Any],
) -> Path:
    """A copy of a checkpoint that declares a pooling; `files` by the stem of their names."""
    shutil.copytree(source, target)
    (target / "1_Pooling").mkdir()
    (target / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (target / "modules.json").write_text(json.dumps([MODULES[name] for name in modules]))
    for stem, content in files.items():
        (target / f"{stem}.json").write_text(json.dumps(content))
    return target
