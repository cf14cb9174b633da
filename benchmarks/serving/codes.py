"""Measures sparse codes through gRPC, from texts to codes and losses, in turn with a plain script: states by transformers, and
a BatchTopK sparse autoencoder in PyTorch on them.

`python -m benchmarks codes --texts FILE`: nine tenths of the texts to train on, one to measure. Both sides run the same
checkpoint in fp32, mask 15 % of the pieces, by their own chance, and take as many steps of as many pieces. Prints what each
reaches, then the ratio of time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from transformers import AutoModelForMaskedLM, AutoTokenizer

from benchmarks.lib.measure import Claim, in_turn, machine, per_second, print_table
from benchmarks.lib.serving import serving

BATCH, RATE, MASKED = 512, 3e-3, 0.15
RUN = 32
"""Texts in a batch of the script, sorted by length."""

Change = Callable[[torch.Tensor], torch.Tensor]


def main(arguments: list[str]) -> int:
    """Runs the comparison and prints it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks codes", description=__doc__)
    parser.add_argument("--texts", type=Path, required=True, help="a file of texts (.txt), such as UD EWT's dev part")
    parser.add_argument("--limit", type=int, help="the first so many (all)")
    parser.add_argument("--layer", type=int, default=3, help="the state (3)")
    parser.add_argument("--codes", type=int, default=1024, help="codes (1024)")
    parser.add_argument("--active", type=int, default=32, help="codes that are active at a piece (32)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the texts (5)")
    parser.add_argument("--rounds", type=int, default=5, help="at least 5 for a figure to quote (5)")
    parser.add_argument("--runtime", default="torch", choices=("torch", "onnx", "auto"), help="the server's (torch)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    texts = workbench.read_texts(options.texts)[: options.limit]
    if len(texts) < 10:
        parser.error(f"--texts has {len(texts)} texts; give 10 or more")
    found = compare(texts[len(texts) // 10 :], texts[: len(texts) // 10], options)
    if options.json:
        print(json.dumps({"machine": machine(), "claims": [dataclasses.asdict(found)]}, indent=2))
    else:
        print_table([found], options.rounds)
    return 0


def compare(train: Sequence[str], dev: Sequence[str], options: argparse.Namespace) -> Claim:
    """Returns the comparison."""
    threads = str(torch.get_num_threads())
    with (
        serving("--model", f"mini={EMBEDDED_FOLDER}", "--runtime", options.runtime, "--threads", threads) as server,
        bertscope.Client(server.target) as client,
    ):
        script = Script(options)

        def ours() -> bertscope.SparseCodes:
            return client.train_codes(
                train,
                dev=dev,
                model="mini",
                layer=options.layer,
                codes=options.codes,
                active=options.active,
                epochs=options.epochs,
                learning_rate=RATE,
            )

        fit = ours().fit
        if fit is None or fit.losses is None:
            raise RuntimeError("codes were not measured")
        explained, recovered = script.run(train, dev)
        print("variance explained, loss recovered: ours, the script's", file=sys.stderr)
        reached = f"{100 * fit.explained:.1f} %, {100 * fit.losses.recovered:.1f} %"
        print(f"{reached}; {100 * explained:.1f} %, {100 * recovered:.1f} %", file=sys.stderr)
        pair = in_turn(ours, lambda: script.run(train, dev), options.rounds)
    what = (
        f"{options.codes} codes of state {options.layer}, {options.active} active, {len(train)} texts, {options.epochs} epochs"
    )
    return pair.claim(
        f"{what}, mini: TrainCodes / transformers and plain PyTorch", "at least .9x", per_second(len(train), "texts")
    )


class Script:
    """The plain script."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER)
        self._model = AutoModelForMaskedLM.from_pretrained(EMBEDDED_FOLDER, dtype=torch.float32).eval()

    def run(self, train: Sequence[str], dev: Sequence[str]) -> tuple[float, float]:
        """Trains codes. Returns the share of variance explained on dev, and the share of the loss recovered from zeros."""
        torch.manual_seed(0)
        masked, tested = self._masked(train), self._masked(dev)
        states = torch.cat([self._states(*batch) for batch in masked])
        mean = states.mean(dim=0)
        scale = (states - mean).square().sum(dim=1).mean().sqrt()
        encode, decoder = self._train((states - mean) / scale)

        def coded(x: torch.Tensor) -> torch.Tensor:
            return mean + scale * (encode((x - mean) / scale) @ decoder)

        seen = torch.cat([self._states(*batch) for batch in tested])
        explained = 1 - (coded(seen) - seen).square().sum() / (seen - mean).square().sum()
        changes: list[Change] = [lambda x: x, coded, lambda x: mean.expand_as(x), torch.zeros_like]
        plain, own, _, zero = [self._loss(tested, change) for change in changes]
        return float(explained), (zero - own) / (zero - plain)

    def _masked(self, texts: Sequence[str]) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Returns batches: ids with masks, what stood there (else -100), and which are pieces of the text."""
        found = []
        ordered = sorted(texts, key=len)
        for begin in range(0, len(ordered), RUN):
            batch = self._tokenizer(
                ordered[begin : begin + RUN],
                return_tensors="pt",
                padding=True,
                truncation=True,
                return_special_tokens_mask=True,
            )
            pieces = batch["special_tokens_mask"] == 0
            hidden = (torch.rand(pieces.shape, dtype=torch.float32, device="cpu") < MASKED) & pieces
            ids = batch["input_ids"]
            labels = torch.where(hidden, ids, -100)
            found.append((torch.where(hidden, self._tokenizer.mask_token_id, ids), labels, pieces))
        return found

    @torch.inference_mode()
    def _states(self, ids: torch.Tensor, _: torch.Tensor, pieces: torch.Tensor) -> torch.Tensor:
        valid = ids != self._tokenizer.pad_token_id
        states = self._model.base_model(ids, attention_mask=valid, output_hidden_states=True).hidden_states
        found: torch.Tensor = states[self._options.layer][pieces]
        return found

    def _train(self, states: torch.Tensor) -> tuple[Change, torch.Tensor]:
        """Returns what encodes states, and the decoder."""
        count, active, size = self._options.codes, self._options.active, states.shape[1]
        rows = torch.nn.functional.normalize(torch.randn((count, size), dtype=torch.float32, device="cpu"), dim=1)
        encoder, decoder = torch.nn.Parameter(rows.clone()), torch.nn.Parameter(rows.clone())
        biases = torch.nn.Parameter(torch.zeros(count, dtype=torch.float32, device="cpu"))
        adam = torch.optim.Adam([encoder, biases, decoder], lr=RATE)
        steps = self._options.epochs * -(-len(states) // BATCH)
        schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(1.0, (steps - step) / (0.2 * steps)))

        def compete(x: torch.Tensor) -> torch.Tensor:
            z = torch.relu(x @ encoder.T + biases)
            best = z.flatten().topk(len(x) * active, sorted=False)
            return torch.zeros_like(z).flatten().scatter(0, best.indices, best.values).view_as(z)

        for _ in range(self._options.epochs):
            for part in torch.randperm(len(states), device="cpu").split(BATCH):
                x = states[part].clone()
                loss = (x - compete(x) @ decoder).square().sum(dim=1).mean()
                adam.zero_grad()
                loss.backward()
                adam.step()
                schedule.step()
                with torch.no_grad():
                    decoder.div_(decoder.norm(dim=1, keepdim=True))
        with torch.no_grad():
            kept = [compete(x) for x in states.split(BATCH)]
            threshold = sum(float(one[one > 0].min()) for one in kept) / len(kept)

        @torch.no_grad()
        def encode(x: torch.Tensor) -> torch.Tensor:
            z = x @ encoder.T + biases
            return torch.where(z > threshold, z, 0)

        return encode, decoder.detach()

    @torch.inference_mode()
    def _loss(self, batches: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor]], change: Change) -> float:
        total, count = 0.0, 0
        for ids, labels, pieces in batches:

            def changed(_: object, given: tuple[torch.Tensor, ...], pieces: torch.Tensor = pieces) -> tuple[torch.Tensor, ...]:
                hidden = given[0].clone()
                hidden[pieces] = change(hidden[pieces])
                return hidden, *given[1:]

            hook = self._model.base_model.encoder.layer[self._options.layer].register_forward_pre_hook(changed)
            logits = self._model(ids, attention_mask=ids != self._tokenizer.pad_token_id).logits
            hook.remove()
            total += float(torch.nn.functional.cross_entropy(logits[labels >= 0], labels[labels >= 0], reduction="sum"))
            count += int((labels >= 0).sum())
        return total / count
