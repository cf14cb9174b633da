"""A tiny random ESM model with the vocabulary of ESM-2 (Lin et al. 2023), whose tokenizer is a list of amino acids."""

import json
from pathlib import Path

from tests.support.tiny import write_checkpoint

AMINO_ACIDS = "LAGVSERTIDPKQNFYMHWC"
"""The twenty standard ones, in the order of their ids, from 4 on."""

VOCABULARY = ("<cls>", "<pad>", "<eos>", "<unk>", *AMINO_ACIDS, *"XBUZO.-", "<null_1>", "<mask>")


def write_proteins(folder: Path) -> Path:
    """Writes the checkpoint as hubs have it: vocab.txt and the name of a class, no tokenizer.json."""
    ids = {"vocab_size": len(VOCABULARY), "pad_token_id": 1, "mask_token_id": VOCABULARY.index("<mask>")}
    write_checkpoint("esm", folder, settings=ids)
    for path in folder.glob("tokenizer*"):
        path.unlink()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    settings = {"tokenizer_class": "EsmTokenizer", "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
