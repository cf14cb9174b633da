"""Measures activation patching through gRPC, in turn with the same by hooks on transformers' module in this process,
of the same weights, pair of texts and threads: the grid of all layers and positions. Values are compared first.

Hooks run in two ways: as models come, with all positions decoded over the whole vocabulary, and as an expert writes it, with
the head applied at the mask alone.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import bertscope
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.lib.measure import Claim, all_in_turn, milliseconds
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import plain

OPTIONS = (ROUNDS,)
Floats = NDArray[np.float64]
Change = Callable[[torch.Tensor], torch.Tensor]
CLEAN = "The keys to the old cabinet [MASK] on the small table in there."
CORRUPTED = "The key to the old cabinet [MASK] on the small table in there."
ANSWERS = "are", "is"
TOLERANCE = 1e-4
"""Logits of two libraries differ by a few 1e-6."""
PATIENCE_SECONDS = 1800.0


def claims(options: Namespace) -> Iterator[Claim]:
    """Yields comparisons by both runtimes."""
    peer = Hooked()
    sides: dict[str, tuple[Callable[[], Floats], str]] = {
        "hooks, one at a time": (partial(peer.singly, peer.everywhere), "at least 5"),
        "hooks, a batch for each layer": (partial(peer.batched, peer.everywhere), "at least 1.7"),
        "hooks, a batch for each layer, head at the mask": (partial(peer.batched, peer.at_mask), ""),
    }
    for runtime in ("onnx", "torch"):
        flags = ("--runtime", runtime, "--threads", str(torch.get_num_threads()))
        with serving(*flags) as server, bertscope.Client(server.target, timeout=PATIENCE_SECONDS) as client:
            ours = partial(_grid, client)
            wanted = ours()
            for name, (side, _) in sides.items():
                np.testing.assert_allclose(side(), wanted, rtol=0, atol=TOLERANCE, err_msg=name)
            pairs = all_in_turn(ours, [side for side, _ in sides.values()], options.rounds)
            what = f"{wanted.shape[0]} layers x {wanted.shape[1]} positions, {runtime}"
            for (name, (_, goal)), pair in zip(sides.items(), pairs, strict=True):
                yield pair.claim(f"{what} / {name}", goal, milliseconds)


def _grid(client: bertscope.Client) -> Floats:
    """Returns the score of the corrupted text with one state of the clean one, [layers, positions]."""
    found = client.trace(CLEAN, CORRUPTED, bertscope.Answer(*ANSWERS))
    return found.difference + found.baseline.corrupted


class Hooked:
    """The model of a server by transformers, and the pair of texts of as many tokens with a mask: the corrupted one gets states
    of the clean one. Scores are the logit of one word at the mask less that of another."""

    def __init__(self) -> None:
        self.model, tokenizer = plain()
        self.clean, self.corrupted = (torch.tensor([tokenizer(text)["input_ids"]]) for text in (CLEAN, CORRUPTED))
        self._entries = tokenizer.convert_tokens_to_ids(list(ANSWERS))
        self._mask = int((self.corrupted[0] == tokenizer.mask_token_id).nonzero())
        self.length = self.corrupted.shape[1]
        # What each layer reads.
        self.states = [self.model.bert.embeddings, *self.model.bert.encoder.layer[:-1]]

    def everywhere(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns scores [rows], from the logits of all positions."""
        return self._scores(self.model(input_ids=ids).logits[:, self._mask])

    def at_mask(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns scores [rows], from the logits at the mask alone."""
        return self._scores(self.model.cls(self.model.bert(input_ids=ids).last_hidden_state[:, self._mask]))

    def _scores(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[:, self._entries[0]] - logits[:, self._entries[1]]

    @torch.inference_mode()
    def singly(self, score: Callable[[torch.Tensor], torch.Tensor]) -> Floats:
        """Returns the score with one state changed, [layers, positions]: a run for each."""
        clean = self._record()
        found = np.empty((len(clean), self.length))
        for layer, place in np.ndindex(*found.shape):

            def patched(states: torch.Tensor, layer: int = layer, place: int = place) -> torch.Tensor:
                states = states.clone()
                states[:, place] = clean[layer][:, place]
                return states

            with changed(self.states[layer], patched):
                found[layer, place] = float(score(self.corrupted))
        return found

    @torch.inference_mode()
    def batched(self, score: Callable[[torch.Tensor], torch.Tensor]) -> Floats:
        """Returns the same by one batch for each layer."""
        rows, found = torch.arange(self.length), []
        for module, clean in zip(self.states, self._record(), strict=True):

            def patched(states: torch.Tensor, clean: torch.Tensor = clean) -> torch.Tensor:
                states = states.clone()
                states[rows, rows] = clean[0]
                return states

            with changed(module, patched):
                found.append(score(self.corrupted.expand(self.length, -1)).double().numpy())
        return np.stack(found)

    def _record(self) -> list[torch.Tensor]:
        """Returns what each layer reads of the clean text."""
        found: list[torch.Tensor] = []

        def keep(states: torch.Tensor) -> torch.Tensor:
            found.append(states)
            return states

        with ExitStack() as stack:
            for module in self.states:
                stack.enter_context(changed(module, keep))
            self.model.bert(input_ids=self.clean)
        return found


@contextmanager
def changed(module: torch.nn.Module, change: Change) -> Iterator[None]:
    """Changes the output of a module, which may be the first of several."""

    def hook(_: torch.nn.Module, __: Any, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
