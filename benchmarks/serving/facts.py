"""Measures QueryFacts through gRPC, from one client, against LAMA's way in-process: one fact, one row, and the softmax over the
whole vocabulary on the host (Petroni et al. 2019), and against transformers with the head at masks alone.

`--data` is a folder with LAMA's templates (lama_templates.jsonl) and a file of facts for each relation (P36.jsonl), as ParaRel
publishes them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import grpc
import numpy as np
import torch
from bertscope.questions.facts.questions import query_facts_request, templates_of, with_facts
from bertscope.v1.cloze_pb2_grpc import ClozeServiceStub
from bertscope_service.embedded import EMBEDDED_FOLDER
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoTokenizer

from benchmarks.lib.measure import Claim, all_in_turn, machine, per_second, print_table
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import write_bert_base

TEMPLATES = "lama_templates.jsonl"

BATCH = 32
"""Sentences in a batch of LAMA's."""

TOP = 10_000
"""The entries that LAMA sorts at each mask, among which it looks for the right one."""

CALL = 256
AGREEING = 0.995
"""The share of facts of the same rank on all sides; near-ties may differ."""


@dataclass(frozen=True, slots=True)
class FactSet:
    """The facts of all relations that a vocabulary can write as one entry, and their relations by name."""

    facts: list[bertscope.Fact]
    relations: dict[str, bertscope.FactRelation]

    @property
    def sentences(self) -> list[str]:
        """The sentence of each fact, in the first template."""
        templates = {name: templates_of(relation)[0].text for name, relation in self.relations.items()}
        return [templates[fact.relation].replace("[Y]", "[MASK]").replace("[X]", fact.subject) for fact in self.facts]


def claims(data: Path, rounds: int, count: int | None) -> Iterator[Claim]:
    """Yields the claims about both models; `count` is the number of facts of each relation, all unless given."""
    asked = read(data, count)
    with tempfile.TemporaryDirectory() as name:
        base = write_bert_base(Path(name))
        with serving("--runtime", "torch", "--model", f"bert-base={base}", "--model", f"mini={EMBEDDED_FOLDER}") as server:
            for what, model, folder in (("bert-base", "bert-base", base), ("embedded model", "mini", EMBEDDED_FOLDER)):
                yield from _compare(server, what, model, folder, asked, rounds)


def read(data: Path, count: int | None) -> FactSet:
    """Reads the facts of a folder."""
    known = workbench.read_templates(data / TEMPLATES)
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER)
    facts: list[bertscope.Fact] = []
    for path in sorted(data.glob("P*.jsonl")):
        found = [fact for fact in workbench.read_facts(path) if len(tokenizer.tokenize(next(iter(fact.objects)))) == 1]
        facts += found[:count]
    return FactSet(facts, {name: known[name] for name in dict.fromkeys(fact.relation for fact in facts)})


def _compare(server: Running, what: str, model: str, folder: Path, asked: FactSet, rounds: int) -> Iterator[Claim]:
    sides = _Sides(server, model, folder, asked)
    ranks = sides.ours()
    for name, found in (("LAMA's way", sides.lama()), ("the head at masks", sides.at_masks())):
        # Beyond the entries that LAMA sorts, it knows no rank.
        agree = np.where(ranks <= TOP, ranks == found, found > TOP).mean()
        if agree < AGREEING:
            raise AssertionError(f"{name} gives the same rank for {agree:.4f} of the facts alone")
    pairs = all_in_turn(sides.ours, [sides.lama, sides.at_masks], rounds)
    rate = per_second(len(asked.facts), "facts")
    about = f"QueryFacts, {what}, {len(asked.facts)} facts of {len(asked.relations)} relations /"
    yield pairs[0].claim(f"{about} LAMA's way, batches of {BATCH}, in-process", "at least 2x", rate)
    yield pairs[1].claim(f"{about} transformers, the head at masks alone, in-process", "at least 1x", rate)
    sent, received, softmax = sides.bytes_of_each()
    ratio = softmax / (sent + received)
    line = f"bytes of a softmax over all positions / of QueryFacts' messages, for each fact, {what}"
    yield Claim(line, f"{sent:.0f} + {received:.0f} B", f"{softmax / 1e6:.1f} MB", ratio, (ratio, ratio), "at least 1000x")


class _Sides:
    """The ways to find the rank of each fact's object, int64 [facts]."""

    def __init__(self, server: Running, model: str, folder: Path, asked: FactSet) -> None:
        self._client = bertscope.Client(server.target)
        self._stub = ClozeServiceStub(grpc.insecure_channel(server.target))
        self._name, self._asked = model, asked
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
        objects = [next(iter(fact.objects)) for fact in asked.facts]
        self._right = [self._tokenizer.convert_tokens_to_ids(self._tokenizer.tokenize(word)[0]) for word in objects]
        self._sentences = asked.sentences
        order = sorted(range(len(self._sentences)), key=lambda index: len(self._sentences[index].split()))
        self._batches = [order[begin : begin + BATCH] for begin in range(0, len(order), BATCH)]

    def ours(self) -> NDArray[np.int64]:
        found = self._client.query_facts(self._asked.facts, self._asked.relations.values(), model=self._name)
        return np.array([result.answers[0].rank for result in found])

    @torch.inference_mode()
    def lama(self) -> NDArray[np.int64]:
        ranks = np.zeros(len(self._sentences), dtype=np.int64)
        for batch in self._batches:
            inputs = self._inputs(batch)
            logs = self._model(**inputs).logits.log_softmax(dim=-1).cpu()
            for row, index in enumerate(batch):
                place = int((inputs["input_ids"][row] == self._tokenizer.mask_token_id).nonzero()[0, 0])
                _, ids = logs[row, place].topk(TOP)
                where = (ids == self._right[index]).nonzero()
                ranks[index] = int(where[0, 0]) + 1 if len(where) else TOP + 1
        return ranks

    @torch.inference_mode()
    def at_masks(self) -> NDArray[np.int64]:
        """Does the least that a user of transformers can: no score at any other position, and no sorting."""
        ranks = np.zeros(len(self._sentences), dtype=np.int64)
        for batch in self._batches:
            inputs = self._inputs(batch)
            hidden = self._model.base_model(**inputs).last_hidden_state
            logits = self._model.cls(hidden[inputs["input_ids"] == self._tokenizer.mask_token_id])
            right = torch.tensor([self._right[index] for index in batch])
            ranks[batch] = ((logits > logits.gather(1, right[:, None])).sum(dim=1) + 1).numpy()
        return ranks

    def _inputs(self, batch: Sequence[int]) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = dict(
            self._tokenizer([self._sentences[index] for index in batch], return_tensors="pt", padding=True)
        )
        return found

    def bytes_of_each(self) -> tuple[float, float, float]:
        """Returns the bytes for each fact: of requests, of replies, and of a softmax at all positions of its batch."""
        ask = query_facts_request(
            model=self._name,
            vocabulary=(),
            scoring="single_entry",
            max_pieces=None,
            top_k=1,
            prior=False,
            interventions=(),
            reference_texts=(),
        )
        facts, sent, received = self._asked.facts, 0, 0
        for begin in range(0, len(facts), CALL):
            request = with_facts(ask, self._asked.relations, facts[begin : begin + CALL])
            sent += request.ByteSize()
            received += self._stub.QueryFacts(request).ByteSize()
        positions = sum(self._inputs(batch)["input_ids"].numel() for batch in self._batches)
        count = len(facts)
        return sent / count, received / count, positions * self._model.config.vocab_size * 4 / count


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks facts", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder of facts and LAMA's templates")
    parser.add_argument("--facts", type=int, help="facts of each relation (all)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison, at least 5 for a figure to quote (5)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    found = []
    for claim in claims(options.data, options.rounds, options.facts):
        found.append(claim)
        print(f"{claim.what}: {claim.ratio:.2f}", file=sys.stderr)
    if options.json:
        print(json.dumps({"machine": machine(), "claims": [dataclasses.asdict(claim) for claim in found]}, indent=2))
    else:
        print_table(found, options.rounds)
    return 0
