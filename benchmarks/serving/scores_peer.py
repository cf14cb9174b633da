"""Scores sentences by minicons, whose folder is on PYTHONPATH; see scores.py.

Reads one JSON job from stdin, then scores all texts for every further line, and writes the scores as one line of JSON.
"""

import json
import sys

import torch
from minicons.scorer import MaskedLMScorer  # type: ignore[import-not-found]  # in a folder of its own

job = json.loads(sys.stdin.readline())
torch.set_num_threads(job["threads"])
scorer = MaskedLMScorer(job["folder"], "cpu")
texts, size = job["texts"], job["batch"]


def summed(logs: torch.Tensor) -> float:
    return float(logs.sum())


for _ in sys.stdin:
    scores = []
    for begin in range(0, len(texts), size):
        scores += scorer.sequence_score(texts[begin : begin + size], reduction=summed, PLL_metric="within_word_l2r")
    print(json.dumps(scores), flush=True)
