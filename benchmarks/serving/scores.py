"""Measures ScoreTexts through gRPC from one client, in turn with a loop over transformers with its best batch size, and with
minicons (Misra 2022) with its own batching; and the server's memory while it scores a text of 512 tokens.

`python -m benchmarks scores --texts FILE`, the sentences of a treebank (.conllu) or of a file with one on each line; without a
file, random words, as many as sentences have.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import bertscope
import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from rich.console import Console
from transformers import AutoModelForMaskedLM, AutoTokenizer

from benchmarks.lib.measure import Claim, Pair, all_in_turn, machine, per_second, seconds
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import texts_of_lengths, write_bert_base
from benchmarks.peers.environments import UnavailableError, packages_folder

MINICONS = ("minicons==0.3.39", "wonderwords==2.2.0", "transformers==4.57.1", "huggingface-hub==0.36.0", "tokenizers==0.22.1")
"""Installed without further dependencies: it runs on our own PyTorch. It does not run with transformers 5."""
BATCHES = (8, 16, 32, 64)
"""Rows in a batch of the loop; the fastest one counts."""
SENTENCES = (1, 2, 4)
"""Sentences in a call of minicons, which runs all of their rows at once; the fastest number counts."""
TRIED = 12
"""The sentences on which batch sizes are tried."""
LONG_TOKENS = 512
SAMPLE_SECONDS = 0.02
TOLERANCE = 2e-4
"""The largest relative difference of a score."""
Score = Callable[[], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Work:
    """A model and the texts that are scored."""

    name: str
    folder: Path
    texts: list[str]


def main(arguments: Sequence[str]) -> int:
    """Runs the comparison and prints it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scores", description=__doc__)
    parser.add_argument("--texts", type=Path, help="a treebank (.conllu), or a file with a sentence on each line")
    parser.add_argument("--count", type=int, default=1000, help="sentences")
    parser.add_argument("--base-count", type=int, help="sentences for the bert-base; as many unless set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runtime", default="torch", choices=("torch", "onnx", "auto"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    texts = read_sentences(options.texts, options.count)
    found = []
    for claim in claims(texts, texts[: options.base_count], options.rounds, options.runtime):
        found.append(claim)
        print(f"{claim.what}: {claim.ours} / {claim.theirs} = {claim.ratio:.2f}", file=sys.stderr)
    if options.json:
        rows = [{"what": claim.what, "ours": claim.ours, "theirs": claim.theirs, "ratio": claim.ratio} for claim in found]
        print(json.dumps({"machine": machine(), "claims": rows}, indent=2))
        return 0
    console = Console(highlight=False, soft_wrap=True)
    for claim in found:
        low, high = claim.spread
        spread = f" ({low:.2f} to {high:.2f})" if high > low else ""
        console.print(f"{claim.what}: {claim.ours} beside {claim.theirs}: {claim.ratio:.2f}{spread}; goal: {claim.goal}")
    console.print(machine())
    return 0


def read_sentences(path: Path | None, count: int) -> list[str]:
    """Returns the first sentences of a file; of random words without one."""
    if path is None:
        draw = random.Random(5)
        return texts_of_lengths([draw.randint(8, 40) for _ in range(count)], mask=False)
    lines = path.read_text(encoding="utf-8").splitlines()
    mark = "# text = " if path.suffix == ".conllu" else ""
    return [line.removeprefix(mark) for line in lines if line.startswith(mark) and line.strip()][:count]


def claims(texts: list[str], base_texts: list[str], rounds: int, runtime: str) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as name:
        base = write_bert_base(Path(name))
        flags = ("--model", f"base={base}", "--model", f"mini={EMBEDDED_FOLDER}", "--runtime", runtime)
        with serving(*flags) as server:
            for work in (Work("mini", EMBEDDED_FOLDER, texts), Work("base", base, base_texts)):
                yield from _compare(server, work, rounds)
            for model in ("mini", "base"):
                yield _memory(server, model)


def _compare(server: Running, work: Work, rounds: int) -> Iterator[Claim]:
    client = bertscope.Client(server.target)

    def ours() -> Sequence[float]:
        return [text.log_likelihood for text in client.score_texts(work.texts, model=work.name, pieces=False)]

    loop = Loop(work)
    peers: dict[str, Score] = {f"loop over transformers, {loop.batch} rows in a batch": loop.score}
    with minicons(work) as peer:
        if isinstance(peer, Minicons):
            peers[f"minicons, {peer.batch} sentences in a call"] = peer.score
        else:
            print(f"left out: minicons: {peer}", file=sys.stderr)
        expected = np.array(ours())
        for name, score in peers.items():
            np.testing.assert_allclose(expected, score(), rtol=TOLERANCE, atol=1e-3, err_msg=name)
        pairs: list[Pair] = all_in_turn(ours, [*peers.values()], rounds)
    for name, pair in zip(peers, pairs, strict=True):
        what = f"ScoreTexts, {work.name}, {len(work.texts)} sentences / {name}"
        yield pair.claim(what, "at least 2x", per_second(len(work.texts), "sentences"))


class Loop:
    """Scores texts by transformers in this process: masked copies of a text in batches of a number of rows."""

    def __init__(self, work: Work) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(work.folder)
        self._model = AutoModelForMaskedLM.from_pretrained(work.folder, dtype=torch.float32).eval()
        self._texts = work.texts
        self.batch = min(BATCHES, key=lambda size: seconds(lambda: self.scores(work.texts[:TRIED], size)))
        """The fastest number of rows."""

    def score(self) -> list[float]:
        """Returns the scores of all texts."""
        return self.scores(self._texts, self.batch)

    @torch.inference_mode()
    def scores(self, texts: Sequence[str], size: int) -> list[float]:
        """Returns the scores of some texts, with `size` rows in a batch."""
        return [self._score(text, size) for text in texts]

    def _score(self, text: str, size: int) -> float:
        encoded = self._tokenizer(text, return_tensors="pt")
        ids, words = encoded["input_ids"][0], encoded.word_ids()
        places = [place for place, word in enumerate(words) if word is not None]
        rows = ids.repeat(len(places), 1)
        for row, place in enumerate(places):
            later = [other for other in range(place, len(words)) if words[other] == words[place]]
            rows[row, later] = self._tokenizer.mask_token_id
        total = 0.0
        for begin in range(0, len(places), size):
            part = rows[begin : begin + size]
            its = torch.tensor(places[begin : begin + size])
            logits = self._model(input_ids=part).logits[torch.arange(len(part)), its]
            total += float(logits.log_softmax(-1).gather(1, ids[its][:, None]).double().sum())
        return total


class Minicons:
    """Scores texts by minicons, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], batch: int) -> None:
        self._process, self.batch = process, batch

    def score(self) -> list[float]:
        """Returns the scores of all texts."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the process has no pipes")
        stdin.write("\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise UnavailableError("its process ended; what it wrote says why")
        scores: list[float] = json.loads(line)
        return scores


@contextmanager
def minicons(work: Work) -> Iterator[Minicons | UnavailableError]:
    """Starts minicons with its fastest number of sentences in a call; gives the reason if it can't be installed or run."""
    taken = {}
    try:
        folder = packages_folder(Path(tempfile.gettempdir()) / "bertscope-minicons", MINICONS)
        for size in SENTENCES:
            with _started(work.folder, work.texts[:TRIED], size, folder) as trial:
                trial.score()
                taken[size] = seconds(trial.score)
    except UnavailableError as error:
        yield error
        return
    with _started(work.folder, work.texts, min(taken, key=taken.__getitem__), folder) as peer:
        yield peer


@contextmanager
def _started(model: Path, texts: list[str], size: int, packages: Path) -> Iterator[Minicons]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])}
    script = Path(__file__).with_name("scores_peer.py")
    process = subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        job = {"folder": str(model), "texts": texts, "batch": size, "threads": torch.get_num_threads()}
        if process.stdin is not None:
            process.stdin.write(f"{json.dumps(job)}\n")
        yield Minicons(process, size)
    finally:
        process.terminate()
        process.wait()


def _memory(server: Running, model: str) -> Claim:
    """Compares the server's memory while it scores a text of 512 tokens with its memory for one short text.

    Of a bert-base, which takes minutes for all, the first words are scored.
    """
    (text,) = texts_of_lengths([LONG_TOKENS], mask=False)
    words = text.split()
    end = len(text) if model == "mini" else len(" ".join(words[:24]))
    given = bertscope.ScoredInput(text, [(0, end)])
    with bertscope.Client(server.target) as client:
        client.score_texts(" ".join(words[:16]), model=model)
        before = server.resident_bytes()
        with _peak(server) as peak:
            client.score_texts(given, model=model)
    ratio = peak[0] / before
    mebi = 1024**2
    ours, theirs = f"{peak[0] / mebi:.0f} MiB", f"{before / mebi:.0f} MiB"
    return Claim(f"memory of the server, {model}: a text of 512 tokens / before", ours, theirs, ratio, (ratio, ratio), "1")


@contextmanager
def _peak(server: Running) -> Iterator[list[int]]:
    """Gives the largest memory of the server meanwhile, bytes."""
    found, over = [server.resident_bytes()], threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            found[0] = max(found[0], server.resident_bytes())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
