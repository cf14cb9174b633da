"""Measures exact Shapley values through gRPC from one client, in turn with shap's ExactExplainer and with a loop over
transformers; and the memory of client and server over 1,000 texts.

Both peers run in this process, of the same weights and texts, with masks for absent words, and their values are compared with
ours first. Each runs in two ways: as models come, with all positions decoded over the whole vocabulary, and as an expert writes
it, with the head applied at the mask alone.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
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
"""Installed without further dependencies: it runs on our own numpy and scipy."""
EIGHT = "The keys to the old cabinet [MASK] lost."
TEN = "The keys to the old wooden cabinet [MASK] lost again."
TARGET = bertscope.Answer("were", "was")
BATCH = 64
"""Texts that a peer runs at a time."""
TOLERANCE = 1e-4
"""Logits of two libraries differ by a few 1e-6."""
MANY = 1000
PAST = 100
"""Texts after which memory is first looked at."""


def claims(options: Namespace) -> Iterator[Claim]:
    """Compares exact values of eight words with peers, and ten words' time with the goal; then memory."""
    peers = {"all positions": Peer(EIGHT, everywhere=True), "the mask alone": Peer(EIGHT, everywhere=False)}
    for runtime in ("torch", "onnx"):
        with serving("--runtime", runtime) as server, bertscope.Client(server.target) as client:
            yield from _compared(client, peers, options.rounds, runtime)
            pair = in_turn(partial(_ask, client, TEN), Peer(TEN, everywhere=True).loop, options.rounds)
            what = f"exact Shapley, 10 words, 1,024 texts, {runtime} / a transformers loop that decodes all positions"
            yield pair.claim(what, "ours under 2 s", milliseconds)
            if runtime == "torch":
                yield _memory(server, client)


def _compared(client: bertscope.Client, peers: dict[str, Peer], rounds: int, runtime: str) -> Iterator[Claim]:
    sides: dict[str, Callable[[], Floats]] = {f"a transformers loop, {how}": peer.loop for how, peer in peers.items()}
    try:
        sides |= {f"shap {SHAP[0][6:]} ExactExplainer, {how}": _explainer(peer) for how, peer in peers.items()}
    except UnavailableError as error:
        print(f"shap: {error}", file=sys.stderr)
    wanted = _ask(client, EIGHT)
    for name, side in sides.items():
        np.testing.assert_allclose(side(), wanted, rtol=0, atol=TOLERANCE, err_msg=name)
    for name, pair in zip(sides, all_in_turn(partial(_ask, client, EIGHT), list(sides.values()), rounds), strict=True):
        goal = "at least 1.5" if "all positions" in name else ""
        yield pair.claim(f"exact Shapley, 8 words, 256 texts, {runtime} / {name}", goal, milliseconds)


def _ask(client: bertscope.Client, text: str) -> Floats:
    (found,) = client.attribute_words(text, TARGET)
    return found.values


class Peer:
    """The score of a text with some of its words masked, by transformers in this process."""

    def __init__(self, text: str, *, everywhere: bool) -> None:
        """`everywhere`: all positions are decoded, not the mask alone."""
        self._model, tokenizer = plain()
        encoded = tokenizer(text)
        self._ids = np.array(encoded["input_ids"])
        self._mask, self._everywhere = tokenizer.mask_token_id, everywhere
        self._place = int(np.flatnonzero(self._ids == self._mask)[0])
        self._answers = tokenizer.convert_tokens_to_ids([TARGET.answer, str(TARGET.other)])
        words = [-1 if word is None or place == self._place else word for place, word in enumerate(encoded.word_ids())]
        named = sorted(set(words) - {-1})
        self._of = np.array([named.index(word) if word >= 0 else len(named) for word in words])
        self.words = len(named)

    def scores(self, present: NDArray[Any]) -> Floats:
        """Returns the score of each set of words, [n], of which words are present, bool [n, words]."""
        kept = np.concatenate([present.astype(bool), np.ones((len(present), 1), dtype=bool)], axis=1)[:, self._of]
        ids = torch.from_numpy(np.where(kept, self._ids, self._mask))
        with torch.inference_mode():
            found = [self._logits(part) for part in ids.split(BATCH)]
        logits = torch.cat(found)[:, self._answers].double().numpy()
        return np.asarray(logits[:, 0] - logits[:, 1])

    def _logits(self, ids: torch.Tensor) -> torch.Tensor:
        if self._everywhere:
            whole: torch.Tensor = self._model(input_ids=ids).logits
            return whole[:, self._place]
        read: torch.Tensor = self._model.cls(self._model.bert(input_ids=ids).last_hidden_state[:, self._place])
        return read

    def loop(self) -> Floats:
        """Returns the exact values from the scores of all sets."""
        game = ExactShapley(self.words)
        return game.divide(self.scores(np.stack([game.present(row) for row in range(game.rows)]))).values


def _explainer(peer: Peer) -> Callable[[], Floats]:
    """Returns shap's exact values of the same scores. Raises UnavailableError."""
    importable("shap", SHAP)
    try:
        import shap  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise UnavailableError(f"it does not run here: {error}") from error
    explainer = shap.explainers.Exact(peer.scores, shap.maskers.Independent(np.zeros((1, peer.words))))

    def explain() -> Floats:
        found: Floats = explainer(np.ones((1, peer.words))).values[0]
        return found

    return explain


def _memory(server: Running, client: bertscope.Client) -> Claim:
    """Returns how much memory client and server take after MANY texts, against after PAST."""
    texts = (TEN if number % 2 else EIGHT for number in range(MANY))
    here, sizes = psutil.Process(os.getpid()), list[int]()
    for number, _ in enumerate(client.attribute_words_stream(texts, TARGET, method="occlusion"), start=1):
        if number in (PAST, MANY):
            sizes.append(server.resident_bytes() + here.memory_info().rss)
    what = f"memory of client and server after {MANY:,} texts / after {PAST}"
    return share(what, sizes[1:], sizes[:1], mebibytes, "under 1.05")
