"""Runs transformers 4's own `head_mask`, one full forward per head, in an interpreter that has transformers 4; see
head_mask.py.

Reads one JSON job from stdin, then runs the whole loop for every further line and writes the losses as one line of JSON.
"""

import json
import sys

import torch
from transformers import BertForMaskedLM

job = json.loads(sys.stdin.readline())
torch.set_num_threads(job["threads"])
model = BertForMaskedLM.from_pretrained(job["folder"], attn_implementation="eager").eval()
ids = torch.tensor(job["ids"])
mask = torch.ones(12, 12)


@torch.inference_mode()
def head(layer: int, number: int) -> list[float]:
    mask[layer, number] = 0
    losses = []
    for begin in range(0, len(ids), job["batch"]):
        part = slice(begin, begin + job["batch"])
        counts = [len(row) for row in job["positions"][part]]
        rows = torch.tensor([row for row, count in enumerate(counts) for _ in range(count)])
        places = torch.tensor([place for row in job["positions"][part] for place in row])
        golds = torch.tensor([gold for row in job["golds"][part] for gold in row])
        hidden = model.bert(input_ids=ids[part], head_mask=mask).last_hidden_state
        logs = model.cls(hidden[rows, places]).log_softmax(dim=-1).gather(1, golds[:, None])[:, 0]
        losses += [-float(values.mean()) for values in logs.split(counts)]
    mask[layer, number] = 1
    return losses


for _ in sys.stdin:
    print(json.dumps([head(layer, number) for layer in range(12) for number in range(12)]), flush=True)
