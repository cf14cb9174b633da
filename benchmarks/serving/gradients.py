"""Measures 50 steps of integrated gradients through gRPC, in turn with captum's in-process on transformers' model with the same
weights. Values are compared first, word by word.

Captum is asked twice, since its user writes the forward pass: one decodes all positions, as `model(**inputs).logits` does, the
other applies the head at the mask alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoTokenizer

from benchmarks.lib.measure import Claim, all_in_turn, per_second
from benchmarks.lib.serving import serving
from benchmarks.peers.environments import UnavailableError, packages_folder

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
        sys.path.append(str(packages_folder(Path(tempfile.gettempdir()) / "bertscope-captum", (CAPTUM,))))
        self._integrated = import_module("captum.attr").LayerIntegratedGradients
        self.model = AutoModelForMaskedLM.from_pretrained(EMBEDDED_FOLDER, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER)
        self.entries = tokenizer.convert_tokens_to_ids([ANSWER, OTHER])
        self.texts = [self._read(text, tokenizer) for text in TEXTS]

    def _read(self, text: str, tokenizer: Any) -> Masked:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        special = torch.tensor([[*tokenizer.all_special_ids]])
        words = (ids[0, :, None] != special).all(dim=1)
        absent = torch.where(words, tokenizer.mask_token_id, ids)
        return Masked(ids, absent, torch.nonzero(words)[:, 0], int((ids[0] == tokenizer.mask_token_id).nonzero()))

    def everywhere(self, ids: torch.Tensor, place: int) -> torch.Tensor:
        """Scores from the logits of all positions, [n]."""
        return self._difference(self.model(input_ids=ids).logits[:, place])

    def at_mask(self, ids: torch.Tensor, place: int) -> torch.Tensor:
        """Scores from the logits at the mask, [n]."""
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


def claims(rounds: int) -> Iterator[Claim]:
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
            asked = partial(ours, texts)
            sides = {
                "captum that decodes all positions": partial(peers.integrated, peers.everywhere, texts),
                "captum whose forward applies the head at the mask": partial(peers.integrated, peers.at_mask, texts),
            }
            for name, pair in zip(sides, all_in_turn(asked, _equal(asked, list(sides.values())), rounds), strict=True):
                goal = "at least 1.5" if "all positions" in name else ""
                yield pair.claim(f"{size}, {STEPS} steps of integrated gradients / {name}", goal, unit)


def _equal(ours: Callable[[], list[Floats]], peers: list[Callable[[], list[Floats]]]) -> list[Callable[[], list[Floats]]]:
    """Returns the peers. Raises ValueError if one gives other values than ours."""
    found = ours()
    for peer in peers:
        worst = max(float(np.abs(one - other).max()) for one, other in zip(found, peer(), strict=True))
        print(f"largest difference of a value: {worst:.1e}", file=sys.stderr)
        if worst > TOLERANCE:
            raise ValueError(f"values differ by {worst:.1e} logits, so that times can't be compared")
    return peers
