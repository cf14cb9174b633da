"""Checkpoints as transformers runs them, one text or pair at a time and without padding."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

HEAD_SIZE = 8
"""Of the tiny models."""


class Plain:
    """A model and its tokenizer by transformers alone. [MASK] in a text stands for the model's own mask."""

    def __init__(self, folder: Path, kind: Any = AutoModel) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = kind.from_pretrained(folder, attn_implementation="eager").eval()

    def encode(self, *texts: str | None, **options: Any) -> Any:
        """Returns the inputs of a text, or of a pair."""
        given = [text.replace("[MASK]", self.tokenizer.mask_token) for text in texts if text is not None]
        return self.tokenizer(*given, return_tensors="pt", **options)

    @torch.no_grad()
    def run(self, *texts: str | None, **options: Any) -> Any:
        return self.model(**self.encode(*texts), **options)

    def logits(self, *texts: str | None) -> NDArray[Any]:
        """Returns a classifier's scores of a text, [labels]."""
        return self.run(*texts).logits[0].double().numpy()  # type: ignore[no-any-return]

    def masks(self, *texts: str | None) -> list[int]:
        """Returns the places of the masks."""
        ids = self.encode(*texts)["input_ids"][0]
        return (ids == self.tokenizer.mask_token_id).nonzero()[:, 0].tolist()  # type: ignore[no-any-return]

    def at_masks(self, *texts: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns scores and log probabilities at the masks, each [masks, vocabulary]."""
        output = self.run(*texts)
        scores = output.logits if "logits" in output else output.prediction_logits
        found = scores[0, self.masks(*texts)].double()
        return found.numpy(), found.log_softmax(-1).numpy()

    @torch.no_grad()
    def zero(self, layer: int, head: int) -> None:
        """Silences a head of a BERT: the columns of the projection that read it."""
        projection = self.model.base_model.encoder.layer[layer].attention.output.dense
        projection.weight[:, head * HEAD_SIZE : (head + 1) * HEAD_SIZE] = 0


def word_numbers(encoded: Any, text: str) -> list[Hashable]:
    """Returns the word of each token of a text, encoded with its offsets; None for special tokens.

    Sentence pieces part words at blanks alone; marks end words all the same.
    """
    words, parts, last = list[Hashable](), 0, 0
    for (start, end), word in zip(encoded["offset_mapping"], encoded.word_ids(), strict=True):
        begin = end - len(text[start:end].lstrip())
        beside = text[begin - 1 : begin + 1]
        parts += last <= begin and len(beside) == 2 and not beside.isalnum() and " " not in beside
        last = end
        words.append(None if word is None else (word, parts))
    return words
