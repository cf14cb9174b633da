"""Measures 50 steps of integrated gradients through gRPC, in turn with captum's in-process on transformers' model with the same
weights. Values are compared first, word by word.

Captum is asked twice, since its user writes the forward pass: one decodes all positions, as `model(**inputs).logits` does, the
other applies the head at the mask alone.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import bertscope
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.lib.environments import UnavailableError, importable
from benchmarks.lib.measure import Claim, all_in_turn, per_second
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import plain

OPTIONS = (ROUNDS,)
Floats = NDArray[np.float64]
CAPTUM = "captum==0.9.0"
"""Installed without dependencies: it runs on our own PyTorch."""
TEXTS = (
    "The keys to the old cabinet [MASK] on the table.",
    "The cat that the dogs chase [MASK] in the garden.",
    "Many people in the small town [MASK] at the market.",
    "The letters that the old man wrote [MASK] very long.",
)
"""Texts of ten words and a mask, each word a piece."""
ANSWER, OTHER = "are", "is"
STEPS = 50
TOLERANCE = 1e-5
"""The largest difference of a value, in logits: both sides add up float32 numbers around 1."""


@dataclass(frozen=True)
class Masked:
    """A text for transformers: its ids [1, length], those with masks for all words, and the places of words and mask."""

    ids: torch.Tensor
    absent: torch.Tensor
    words: torch.Tensor
    place: int


class Peers:
    """Captum on transformers' model with the weights of the server's. Raises UnavailableError if it can't be installed."""

    def __init__(self) -> None:
        importable("captum", (CAPTUM,))
        self._integrated = import_module("captum.attr").LayerIntegratedGradients
        self.model, self._tokenizer = plain()
        self.entries = self._tokenizer.convert_tokens_to_ids([ANSWER, OTHER])
        self.texts = list(map(self._read, TEXTS))

    def _read(self, text: str) -> Masked:
        tokenizer = self._tokenizer
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        special = torch.tensor([[*tokenizer.all_special_ids]])
        words = (ids[0, :, None] != special).all(dim=1)
        absent = torch.where(words, tokenizer.mask_token_id, ids)
        return Masked(ids, absent, torch.nonzero(words)[:, 0], int((ids[0] == tokenizer.mask_token_id).nonzero()))

    def everywhere(self, ids: torch.Tensor, place: int) -> torch.Tensor:
        """Returns scores from the logits of all positions, [n]."""
        return self._difference(self.model(input_ids=ids).logits[:, place])

    def at_mask(self, ids: torch.Tensor, place: int) -> torch.Tensor:
        """Returns scores from the logits at the mask, [n]."""
        return self._difference(self.model.cls(self.model.bert(input_ids=ids).last_hidden_state[:, place]))

    def _difference(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[:, self.entries[0]] - logits[:, self.entries[1]]

    def integrated(self, score: Callable[[torch.Tensor, int], torch.Tensor], texts: int) -> list[Floats]:
        """Returns integrated gradients of the first texts by captum, one array of words each."""
        found = []
        for text in self.texts[:texts]:

            def scores(ids: torch.Tensor, place: int = text.place) -> torch.Tensor:
                return score(ids, place)

            explainer = self._integrated(scores, self.model.bert.embeddings)
            parts = explainer.attribute(text.ids, baselines=text.absent, n_steps=STEPS, method="riemann_middle")
            found.append(parts[0].sum(dim=1)[text.words].double().numpy())
        return found


def claims(options: Namespace) -> Iterator[Claim]:
    """Yields comparisons for one text, and for all in one call."""
    try:
        peers = Peers()
    except UnavailableError as error:
        print(f"captum: {error}", file=sys.stderr)
        return
    with serving("--threads", str(torch.get_num_threads())) as server, bertscope.Client(server.target) as client:

        def ours(texts: int) -> list[Floats]:
            target, given = bertscope.Answer(ANSWER, OTHER), list(TEXTS[:texts])
            found = client.attribute_words(given, target, method="integrated_gradients", steps=STEPS, max_steps=STEPS)
            return [np.asarray(one.values) for one in found]

        for texts in (1, len(TEXTS)):
            unit, size = per_second(texts, "texts"), f"{texts} text{'s' * (texts > 1)} of 10 words"
            sides = {
                "captum that decodes all positions": partial(peers.integrated, peers.everywhere, texts),
                "captum whose forward applies the head at the mask": partial(peers.integrated, peers.at_mask, texts),
            }
            wanted = np.concatenate(ours(texts))
            for side in sides.values():
                np.testing.assert_allclose(np.concatenate(side()), wanted, rtol=0, atol=TOLERANCE)
            for name, pair in zip(sides, all_in_turn(partial(ours, texts), list(sides.values()), options.rounds), strict=True):
                goal = "at least 1.5" if "all positions" in name else ""
                yield pair.claim(f"{size}, {STEPS} steps of integrated gradients / {name}", goal, unit)
