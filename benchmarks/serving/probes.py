"""Measures probes of all layers through gRPC, from sentences to accuracies, in turn with the usual script: transformers
in-process, the states of words written to disk, a file for each layer, and scikit-learn's LogisticRegression on each.

`python -m benchmarks probes --treebank FILE`: seven tenths of a treebank's sentences to train on, one to end training, two to
test on. Both sides run the same checkpoint in fp32 and train on the same words. Ours always trains the control task as well,
twice as many probes; the script does so with `--control`. scikit-learn has no dev words; it is timed as it is by default, and
its accuracies are compared with ours as it goes on to where ours ends. Prints the accuracy of each layer by both, then the
ratios of time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import bertscope
import bertscope_workbench as workbench
import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from transformers import AutoModelForMaskedLM, AutoTokenizer

from benchmarks.lib.measure import Claim, Pair, all_in_turn, machine, per_second, print_table
from benchmarks.lib.serving import serving

BATCH = 32
"""Texts in a batch of the script, sorted by length."""
AGREED = 0.005
"""The largest difference of accuracies at the minimum."""
WORDS = 3
"""So many words may differ all the same: both sides end near the minimum, not at it."""
USUAL = {"max_iter": 1000}
"""How people call scikit-learn: it ends where no partial derivative is larger than 1e-4."""
EXACT = {"max_iter": 10_000, "tol": 1e-5}
"""Ends where probes of ours do at the minimum."""


def main(arguments: list[str]) -> int:
    """Runs the comparison and prints it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks probes", description=__doc__)
    parser.add_argument("--treebank", type=Path, required=True, help="a treebank (.conllu), such as UD EWT's dev part")
    parser.add_argument("--sentences", type=int, help="the first so many (all)")
    parser.add_argument("--label", default="upos", choices=("upos", "xpos", "deprel"), help="the column to predict (upos)")
    parser.add_argument("--rounds", type=int, default=5, help="at least 5 for a figure to quote (5)")
    parser.add_argument("--runtime", default="torch", choices=("torch", "onnx", "auto"), help="the server's (torch)")
    parser.add_argument("--control", action="store_true", help="the script trains the control task, too, as ours does")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    texts = workbench.read_probe_conllu(options.treebank, options.label, limit=options.sentences)
    if len(texts) < 10:
        parser.error(f"--treebank has {len(texts)} sentences; give 10 or more")
    found = compare(texts, options)
    if options.json:
        print(json.dumps({"machine": machine(), "claims": [dataclasses.asdict(claim) for claim in found]}, indent=2))
    else:
        print_table(found, options.rounds)
    return 0


def compare(texts: Sequence[bertscope.ProbeText], options: argparse.Namespace) -> list[Claim]:
    """Returns the comparisons, for both ways that training ends."""
    ends = 7 * len(texts) // 10, 8 * len(texts) // 10
    train, dev, test = texts[: ends[0]], texts[ends[0] : ends[1]], texts[ends[1] :]
    threads = str(torch.get_num_threads())
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("--model", f"mini={EMBEDDED_FOLDER}", "--runtime", options.runtime, "--threads", threads) as server,
        bertscope.Client(server.target) as client,
    ):
        script = Script(train, test, Path(folder), control=options.control)

        def ours(ending: Any) -> bertscope.ProbeResult:
            return client.train_probe(train, dev=dev, test=test, model="mini", ending=ending)

        by_dev, at_minimum = ours("dev"), ours("minimum")
        usual, exact = script.run(), script.run(EXACT)
        print("layer: ended by dev words, at the minimum; scikit-learn, as far as that", file=sys.stderr)
        for layer, (*probes, plain, far) in enumerate(zip(by_dev.layers, at_minimum.layers, usual, exact, strict=True)):
            first, second = (f"{100 * one.accuracy:.1f} %" for one in probes)
            print(f"{layer}: {first}, {second}; {100 * plain:.1f} %, {100 * far:.1f} %", file=sys.stderr)
        worst = max(abs(one.accuracy - score) for one, score in zip(at_minimum.layers, exact, strict=True))
        if worst > max(AGREED, WORDS / by_dev.part.spans):
            raise RuntimeError(f"accuracies at the minimum differ by {100 * worst:.2f} points")
        pairs = all_in_turn(script.run, [lambda: ours("dev"), lambda: ours("minimum")], options.rounds)
    rate = per_second(len(texts), "sentences")
    what = f"{options.label} of {len(texts)} sentences, {len(usual)} layers, mini"
    also = ", with a control task" if options.control else ""
    return [
        Pair(pair.theirs, pair.ours).claim(
            f"{what}: TrainProbe, {name}, with a control task / transformers, files, scikit-learn{also}", "at least 5x", rate
        )
        for pair, name in zip(pairs, ("ended by dev words", "at the minimum"), strict=True)
    ]


class Script:
    """The usual script: states of words by transformers, on disk, and a classifier for each layer; with `control` another one
    whose classes are drawn for each different word (Hewitt and Liang 2019, section 2)."""

    def __init__(
        self, train: Sequence[bertscope.ProbeText], test: Sequence[bertscope.ProbeText], folder: Path, *, control: bool
    ) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER)
        self._model = AutoModelForMaskedLM.from_pretrained(EMBEDDED_FOLDER, dtype=torch.float32).eval().base_model
        self._parts = {"train": train, "test": test}
        self._folder = folder
        self._control = control

    def run(self, settings: Mapping[str, Any] = USUAL) -> list[float]:
        """Returns the accuracy of each layer, by LogisticRegression with these settings."""
        labels, words = zip(*(self._extract(name, texts) for name, texts in self._parts.items()), strict=True)
        tasks = [labels, self._control_labels(labels, words)] if self._control else [labels]
        found = []
        for layer in range(self._model.config.num_hidden_layers + 1):
            train, test = (np.load(self._folder / f"{name}-{layer}.npy") for name in self._parts)
            scaler = StandardScaler().fit(train)
            train, test = scaler.transform(train), scaler.transform(test)
            scores = [LogisticRegression(**settings).fit(train, own[0]).score(test, own[1]) for own in tasks]
            found.append(float(scores[0]))
        return found

    def _control_labels(self, labels: Sequence[list[str]], words: Sequence[list[str]]) -> list[list[str]]:
        different = sorted(set().union(*words))
        drawn = dict(zip(different, np.random.default_rng(0).choice(labels[0], size=len(different)), strict=True))
        return [[str(drawn[word]) for word in own] for own in words]

    @torch.inference_mode()
    def _extract(self, name: str, texts: Sequence[bertscope.ProbeText]) -> tuple[list[str], list[str]]:
        """Writes the states of words, the mean of their pieces, and returns their labels and the words."""
        vectors: list[NDArray[Any]] = []
        labels: list[str] = []
        words: list[str] = []
        order = sorted(range(len(texts)), key=lambda place: len(texts[place].text))
        for begin in range(0, len(order), BATCH):
            own = [texts[place] for place in order[begin : begin + BATCH]]
            batch = self._tokenizer([one.text for one in own], return_tensors="pt", padding=True, return_offsets_mapping=True)
            offsets = batch.pop("offset_mapping").numpy()
            states = torch.stack(self._model(**batch, output_hidden_states=True).hidden_states, dim=2).numpy()
            for row, text in enumerate(own):
                begins, ends = offsets[row].T
                for label, start, end, *_ in cast(list[Any], text.labels):
                    places = np.flatnonzero((begins >= start) & (begins < end) & (ends > begins))
                    if len(places):
                        vectors.append(states[row, places].mean(axis=0))
                        labels.append(label)
                        words.append(str(text.text)[start:end])
        for layer, values in enumerate(np.stack(vectors, axis=1)):
            np.save(self._folder / f"{name}-{layer}.npy", values)
        return labels, words
