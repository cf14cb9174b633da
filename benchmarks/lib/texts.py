"""Provides the measured texts and models: the embedded model on the capitals of the world, and a bert-base of random
weights."""

from __future__ import annotations

import csv
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM

CAPITALS = Path(__file__).with_name("capitals.tsv")
"""Countries and their capitals, from the CIA World Factbook; public domain."""


def cloze_texts() -> list[str]:
    """Returns 458 short texts with one mask each."""
    with CAPITALS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    texts = [f"{row['capital']} is the capital of [MASK]." for row in rows]
    return texts + [f"The capital of {row['country']} is [MASK]." for row in rows]


def texts_of_lengths(lengths: list[int], *, mask: bool) -> list[str]:
    """Returns texts of these numbers of tokens of the embedded vocabulary, [CLS] and [SEP] included; with `mask`, they begin
    with one."""
    words = ["river", "house", "small", "winter", "music", "green", "people", "water", "school", "night"]
    draw = random.Random(5)
    texts = []
    for length in lengths:
        chosen = draw.choices(words, k=length - 2)
        texts.append(" ".join([*(["[MASK]"] if mask else chosen[:1]), *chosen[1:]]))
    return texts


def read_sentences(path: Path | None, count: int) -> list[str]:
    """Returns the first sentences of a treebank (.conllu) or of a file with one on each line; without a file, random words."""
    if path is None:
        draw = random.Random(5)
        return texts_of_lengths([draw.randint(8, 40) for _ in range(count)], mask=False)
    lines = path.read_text(encoding="utf-8").splitlines()
    mark = "# text = " if path.suffix == ".conllu" else ""
    return [line.removeprefix(mark) for line in lines if line.startswith(mark) and line.strip()][:count]


def write_bert_base(folder: Path, *, layers: int = 12) -> Path:
    """Writes a checkpoint of the shape of bert-base with random weights and the embedded model's vocabulary."""
    torch.manual_seed(5)
    AutoTokenizer.from_pretrained(EMBEDDED_FOLDER).save_pretrained(folder)
    BertForMaskedLM(BertConfig(num_hidden_layers=layers)).save_pretrained(folder)
    return folder


@contextmanager
def bert_base() -> Iterator[Path]:
    """Yields the folder of such a checkpoint, which is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield write_bert_base(Path(name))


def plain(folder: Path = EMBEDDED_FOLDER, **options: Any) -> tuple[Any, Any]:
    """Returns a checkpoint as transformers loads it, with a masked-LM head and in float32, and its tokenizer."""
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32, **options)
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def write_small_bert(folder: Path, *, seed: int, kind: Any = BertForMaskedLM, labels: int = 2) -> Path:
    """Writes a checkpoint of 2 layers x 128 with random weights and the embedded vocabulary, of a class with its labels.

    Its weights are large enough that attention is far from uniform and that two seeds never give the same answer.
    """
    torch.manual_seed(seed)
    shape = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512}
    config = BertConfig(**shape, initializer_range=0.1, num_labels=labels)
    AutoTokenizer.from_pretrained(EMBEDDED_FOLDER).save_pretrained(folder)
    kind(config).save_pretrained(folder)
    return folder
