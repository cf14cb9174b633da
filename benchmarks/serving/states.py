"""Measures ExtractHiddenStates through gRPC, all layers, in turn with transformers and `output_hidden_states=True` in-process,
with transformers' bare forward passes, and with the same passes in the server, of which only [CLS] is sent; and the memory of
`bertscope states` and of the server at the beginning, in the middle and at the end of a corpus."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import psutil
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.measure import Claim, all_in_turn, fastest, mebibytes, per_second, share
from benchmarks.lib.options import ROUNDS, RUNTIME, SENTENCES, option
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import plain, read_sentences, write_bert_base
from benchmarks.serving.scores import Work

OPTIONS = (
    ROUNDS,
    RUNTIME,
    SENTENCES,
    option("--count", "sentences", 1000),
    option("--base-count", "sentences for the bert-base; 0: none", 200),
    option("--dtype", "of what is sent", "float32", choices=("float32", "float16", "bfloat16")),
    option("--corpus-mb", "text of the corpus, MB; 0: none", 2.0),
    option("--corpus-unit", "of the corpus's states, last layer", "text", choices=("piece", "word", "text")),
)
BATCHES = (4, 8, 16, 32, 64)
"""Texts in a batch of the in-process side, sorted by length; the fastest number counts."""
TRIED = 64
"""The texts on which batch sizes are tried."""
TOLERANCE = 2e-3
"""The largest difference of a state, whose numbers are around 1: the runtimes add up in another order."""
SAMPLE_SECONDS = 0.05
BEGINNING = 0.1
"""The first part of a run, after which memory should stay the same."""
MEGA = 10**6


def claims(options: Namespace) -> Iterator[Claim]:
    """Yields the comparisons of both models, then the memory."""
    texts = read_sentences(options.texts, options.count)
    threads = ("--threads", str(torch.get_num_threads()))
    with tempfile.TemporaryDirectory() as name:
        works = [Work("mini", EMBEDDED_FOLDER, texts)]
        if options.base_count:
            works.append(Work("base", write_bert_base(Path(name)), texts[: options.base_count]))
        models = itertools.chain.from_iterable(("--model", f"{work.name}={work.folder}") for work in works)
        with serving(*models, "--runtime", options.runtime, *threads) as server:
            for work in works:
                yield from _compare(server, work, options.rounds, options.dtype)
            if options.corpus_mb:
                yield from _memory(server, texts, options.corpus_mb, options.corpus_unit, Path(name))


def _compare(server: Running, work: Work, rounds: int, dtype: Any) -> Iterator[Claim]:
    peer = InProcess(work)
    with bertscope.Client(server.target) as client:

        def ours() -> int:
            found = client.extract_hidden_states(work.texts, model=work.name, dtype=dtype)
            return sum(text.states.nbytes for text in found)

        def passes() -> int:
            found = client.extract_hidden_states(work.texts, model=work.name, layers=peer.layers, unit="text", pooling="first")
            return sum(1 for _ in found)

        if dtype == "float32":
            _check_equal(client, work, peer)
        ours()
        passes()
        peer.bare()
        pairs = all_in_turn(ours, [peer.states, peer.bare, passes], rounds)
    count = len(work.texts)
    what = f"ExtractHiddenStates, {work.name}, {count} sentences, all layers, {dtype} /"
    rate = per_second(count, "sentences")
    beside = f"{peer.batch} texts in a batch"
    yield pairs[0].claim(f"{what} transformers, output_hidden_states=True, {beside}", "at least 0.9x", rate)
    yield pairs[1].claim(f"{what} transformers, bare forward passes, {beside}", "at least 0.9x", rate)
    yield pairs[2].claim(f"{what} the same server's passes, [CLS] of the last layer sent", "at least 0.9x", rate)


def _check_equal(client: bertscope.Client, work: Work, peer: InProcess) -> None:
    texts = work.texts[:TRIED]
    theirs = peer.states(texts)
    for found in client.extract_hidden_states(texts, model=work.name):
        np.testing.assert_allclose(found.states, theirs[found.input_index], atol=TOLERANCE)


class InProcess:
    """Runs texts by transformers in this process, sorted by length, in batches of the fastest number of texts."""

    def __init__(self, work: Work) -> None:
        whole, self._tokenizer = plain(work.folder)
        self._model, self._texts = whole.base_model, work.texts
        self.layers = int(self._model.config.num_hidden_layers)
        """Layers of the model: the number of the last state."""
        self.batch = fastest(BATCHES, lambda size: self.states(work.texts[:TRIED], size))
        """Texts in a batch."""

    def states(self, texts: list[str] | None = None, batch: int = 0) -> dict[int, Any]:
        """Returns the states of texts, [layers + 1, tokens, hidden_size] each; of all, none is kept."""
        found = {}
        for places, mask, output in self._passes(texts or self._texts, batch or self.batch, output_hidden_states=True):
            hidden = torch.stack(output.hidden_states, dim=1).numpy()
            for row, place in enumerate(places):
                kept = np.ascontiguousarray(hidden[row, :, : int(mask[row].sum())])
                if texts is not None:
                    found[place] = kept
        return found

    def bare(self) -> None:
        """Runs all texts."""
        for _ in self._passes(self._texts, self.batch):
            pass

    @torch.inference_mode()
    def _passes(self, texts: list[str], size: int, **options: bool) -> Iterator[tuple[list[int], Any, Any]]:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for begin in range(0, len(order), size):
            places = order[begin : begin + size]
            batch = self._tokenizer([texts[place] for place in places], return_tensors="pt", padding=True)
            yield places, batch["attention_mask"], self._model(**batch, **options)


def _memory(server: Running, texts: list[str], megabytes: float, unit: str, folder: Path) -> Iterator[Claim]:
    """Compares the memory of the command and of the server at the end of a corpus with that at its beginning."""
    corpus, output = folder / "corpus.txt", folder / "states.npy"
    _write_corpus(corpus, texts, int(megabytes * MEGA))
    with bertscope.Client(server.target) as client:
        last = str(client.get_model("mini").layers)
    asked = ("--texts", str(corpus), "--output", str(output), "--unit", unit, "--layer", last, "--model", "mini")
    program = "from bertscope_workbench.command.app import main; main()"
    command = [sys.executable, "-c", program, "states", "--target", server.target, *asked]
    samples: list[tuple[int, int]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        command_process = psutil.Process(process.pid)
        began = time.monotonic()
        while process.poll() is None:
            memory = _resident(command_process)
            if output.with_name("states.npy.jsonl.part").exists():  # The first states have come.
                samples.append((memory, server.resident_bytes()))
            time.sleep(SAMPLE_SECONDS)
        taken = time.monotonic() - began
        said = process.stdout.read() if process.stdout is not None else ""
    if process.returncode or len(samples) < 3:
        raise RuntimeError(f"the command ended with {process.returncode} after {len(samples)} samples: {said}")
    print(f"{said.strip()} ({megabytes:g} MB of text, {taken:.0f} s)", file=sys.stderr)
    for name, column in (("bertscope states", 0), ("the server", 1)):
        yield _grown(name, [sample[column] for sample in samples], f"{megabytes:g} MB of text, a state of each {unit}")


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _grown(name: str, found: list[int], corpus: str) -> Claim:
    """Returns the memory of a process: medians of the first tenth, of the middle one and of the last."""
    found = [value for value in found if value]
    size = max(1, int(len(found) * BEGINNING))
    middle = len(found) // 2
    first, half, last = (
        float(statistics.median(part)) for part in (found[:size], found[middle : middle + size], found[-size:])
    )
    what = f"memory of {name}, {corpus}: end / beginning (middle {mebibytes(half)}, most {mebibytes(max(found))})"
    return share(what, [last], [first], mebibytes, "about 1")


def _write_corpus(path: Path, texts: list[str], size: int) -> None:
    """Writes the texts again and again, each with another number before it, up to a size in bytes."""
    with path.open("w", encoding="utf-8") as file:
        for number in itertools.count():
            size -= len(line := f"{number} {texts[number % len(texts)]}\n".encode())
            file.write(line.decode())
            if size <= 0:
                return
