"""Measures attributions of words through gRPC from one client, in turn with libraries in this process that run transformers'
model of the same weights: exact Shapley values with shap's ExactExplainer and with a loop, 50 steps of integrated gradients
with captum; and the memory of client and server over 1,000 texts. Values are compared first, word by word.

Each runs in two ways, since its user writes the forward pass: as models come, with all positions decoded over the whole
vocabulary, and as an expert writes it, with the head applied at the mask alone.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import bertscope
import numpy as np
import psutil
import torch
from bertscope_service.analyses.shapley import ExactShapley
from numpy.typing import NDArray

from benchmarks.lib.environments import UnavailableError, importable
from benchmarks.lib.measure import Claim, all_in_turn, in_turn, mebibytes, milliseconds, share
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import plain

OPTIONS = (ROUNDS,)
Floats = NDArray[np.float64]
SHAP = (
    "shap==0.51.0",
    "slicer==0.0.8",
    "numba",
    "llvmlite",
    "cloudpickle",
    "pandas",
    "scikit-learn",
    "joblib",
    "threadpoolctl",
)
CAPTUM = ("captum==0.9.0",)
"""Both are installed without further dependencies: they run on our own PyTorch, numpy and scipy."""
EIGHT = "The keys to the old cabinet [MASK] lost."
TEN = "The keys to the old wooden cabinet [MASK] lost again."
TARGET = bertscope.Answer("were", "was")
WAYS = {"all positions": False, "the mask alone": True}
"""The positions that are decoded, and whether it is the mask alone."""
BATCH = 64
"""Texts that a peer runs at a time."""
STEPS = 50
TOLERANCE = 1e-4
"""Logits of two libraries differ by a few 1e-6."""
MANY = 1000
PAST = 100
"""Texts after which memory is first looked at."""


def claims(options: Namespace) -> Iterator[Claim]:
    """Compares exact values of eight words and integrated gradients of ten with peers, and ten words' time with the goal; then
    memory."""
    for runtime in ("torch", "onnx"):
        flags = ("--runtime", runtime, "--threads", str(torch.get_num_threads()))
        with serving(*flags) as server, bertscope.Client(server.target) as client:
            what = f"exact Shapley, 8 words, 256 texts, {runtime}"
            yield from _compared(what, partial(_exact, client, EIGHT), _shapley_peers(), options.rounds)
            pair = in_turn(partial(_exact, client, TEN), Peer(TEN, at_mask=False).loop, options.rounds)
            what = f"exact Shapley, 10 words, 1,024 texts, {runtime} / a transformers loop that decodes all positions"
            yield pair.claim(what, "ours under 2 s", milliseconds)
            if runtime == "torch":
                what = f"{STEPS} steps of integrated gradients, 10 words"
                yield from _compared(what, partial(_integrated, client), _gradient_peers(), options.rounds)
                yield _memory(server, client)


def _compared(what: str, ours: Callable[[], Floats], sides: Mapping[str, Callable[[], Floats]], rounds: int) -> Iterator[Claim]:
    wanted = ours()
    for name, side in sides.items():
        np.testing.assert_allclose(side(), wanted, rtol=0, atol=TOLERANCE, err_msg=name)
    for name, pair in zip(sides, all_in_turn(ours, list(sides.values()), rounds), strict=True):
        yield pair.claim(f"{what} / {name}", "at least 1.5" if "all positions" in name else "", milliseconds)


def _exact(client: bertscope.Client, text: str) -> Floats:
    (found,) = client.attribute_words(text, TARGET)
    return found.values


def _integrated(client: bertscope.Client) -> Floats:
    (found,) = client.attribute_words(TEN, TARGET, method="integrated_gradients", steps=STEPS, max_steps=STEPS)
    return np.asarray(found.values)


class Peer:
    """The score of a text with some of its words masked, by transformers in this process."""

    def __init__(self, text: str, *, at_mask: bool) -> None:
        """`at_mask`: the mask alone is decoded, not all positions."""
        self.model, tokenizer = plain()
        encoded = tokenizer(text)
        self.ids, self._at_mask = torch.tensor([encoded["input_ids"]]), at_mask
        self._masked = torch.tensor(tokenizer.mask_token_id)
        self._place = int((self.ids[0] == self._masked).nonzero())
        self._answers = tokenizer.convert_tokens_to_ids([TARGET.answer, str(TARGET.other)])
        words = [-1 if word is None or place == self._place else word for place, word in enumerate(encoded.word_ids())]
        named = sorted(set(words) - {-1})
        self.words = len(named)
        self.word_of = torch.tensor([named.index(word) if word >= 0 else self.words for word in words])
        """The word of each token; their number for [CLS], [SEP] and the mask."""

    @property
    def absent(self) -> torch.Tensor:
        """The ids with masks for all words, [1, length]."""
        return torch.where(self.word_of < self.words, self._masked, self.ids)

    def scores(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns the logit of one answer less that of the other, [n], of ids [n, length]."""
        if self._at_mask:
            logits = self.model.cls(self.model.bert(input_ids=ids).last_hidden_state[:, self._place])
        else:
            logits = self.model(input_ids=ids).logits[:, self._place]
        found: torch.Tensor = logits[:, self._answers[0]] - logits[:, self._answers[1]]
        return found

    @torch.inference_mode()
    def score_sets(self, present: NDArray[Any]) -> Floats:
        """Returns the score of each set of words, [n], of which words are present, bool [n, words]."""
        kept = np.concatenate([present.astype(bool), np.ones((len(present), 1), dtype=bool)], axis=1)[:, self.word_of.numpy()]
        ids = torch.where(torch.from_numpy(kept), self.ids, self._masked)
        return torch.cat([self.scores(part) for part in ids.split(BATCH)]).double().numpy()

    def loop(self) -> Floats:
        """Returns the exact values from the scores of all sets."""
        game = ExactShapley(self.words)
        return game.divide(self.score_sets(np.stack([game.present(row) for row in range(game.rows)]))).values


def _shapley_peers() -> dict[str, Callable[[], Floats]]:
    peers = {how: Peer(EIGHT, at_mask=at_mask) for how, at_mask in WAYS.items()}
    sides = {f"a transformers loop, {how}": peer.loop for how, peer in peers.items()}
    try:
        importable("shap", SHAP)
        return sides | {f"{SHAP[0]} ExactExplainer, {how}": _explainer(peer) for how, peer in peers.items()}
    except (UnavailableError, ImportError) as error:
        print(f"shap: {error}", file=sys.stderr)
        return sides


def _explainer(peer: Peer) -> Callable[[], Floats]:
    """Returns shap's exact values of the same scores."""
    shap = import_module("shap")
    explainer = shap.explainers.Exact(peer.score_sets, shap.maskers.Independent(np.zeros((1, peer.words))))
    return lambda: np.asarray(explainer(np.ones((1, peer.words))).values[0])


def _gradient_peers() -> dict[str, Callable[[], Floats]]:
    try:
        importable("captum", CAPTUM)
        method = import_module("captum.attr").LayerIntegratedGradients
    except (UnavailableError, ImportError) as error:
        print(f"captum: {error}", file=sys.stderr)
        return {}
    return {f"{CAPTUM[0]}, {how}": partial(_by_captum, method, Peer(TEN, at_mask=at_mask)) for how, at_mask in WAYS.items()}


def _by_captum(method: Any, peer: Peer) -> Floats:
    """Returns integrated gradients of each word, which is one piece."""
    explainer = method(peer.scores, peer.model.bert.embeddings)
    (parts,) = explainer.attribute(peer.ids, baselines=peer.absent, n_steps=STEPS, method="riemann_middle")
    found: Floats = parts.sum(dim=1)[peer.word_of < peer.words].double().numpy()
    return found


def _memory(server: Running, client: bertscope.Client) -> Claim:
    """Returns how much memory client and server take after MANY texts, against after PAST."""
    texts = (TEN if number % 2 else EIGHT for number in range(MANY))
    here, sizes = psutil.Process(os.getpid()), list[int]()
    for number, _ in enumerate(client.attribute_words_stream(texts, TARGET, method="occlusion"), start=1):
        if number in (PAST, MANY):
            sizes.append(server.resident_bytes() + here.memory_info().rss)
    what = f"memory of client and server after {MANY:,} texts / after {PAST}"
    return share(what, sizes[1:], sizes[:1], mebibytes, "under 1.05")
