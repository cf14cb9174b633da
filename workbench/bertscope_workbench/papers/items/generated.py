"""Sentences of our own that were generated from a grammar, with what is known of each because it was made from it.

- treebank.conllu.gz: 1,200 sentences of 5 to 18 words with their trees, after Universal Dependencies 2. MISC has `Role=Agent`
  of the head of an argument and `Entity=B-PERSON` of the words of names, numbers and times.
- ambiguous_names.jsonl: names that are of several types, such as a person's and a place's, in other such sentences.
- auxiliaries.jsonl: sentences with two auxiliaries, of which one is the main clause's; it is the first in the parts to train
  on, and the second in the test part.
"""

import gzip
import json
from functools import cache
from typing import Any

from bertscope import ProbeText

from bertscope_workbench.papers.items import shipped
from bertscope_workbench.readers.conllu import Sentence, blocks, parse_sentence


@cache
def sentences() -> tuple[Sentence, ...]:
    """Returns the sentences of the treebank."""
    lines = gzip.decompress(shipped("treebank.conllu.gz").read_bytes()).splitlines(keepends=True)
    return tuple(sentence for _, block in blocks(lines) if (sentence := parse_sentence(block)) is not None)


def ambiguous_names() -> list[ProbeText]:
    """Returns sentences with names of which some sentence has another type; the labels are types."""
    return [_labelled(row) for row in _rows("ambiguous_names.jsonl")]


def auxiliary_texts(part: str) -> list[ProbeText]:
    """Returns the sentences of "train", "dev" or "test" whose auxiliaries are labelled "main" or "of the relative clause".

    Where the main one is first ("The cook can see the dog that the king will hear."), a noun stands before either of them, so
    that the word before does not tell them apart; nor does the place in the sentence, as openings have different lengths. A
    probe that is trained where the main auxiliary is also the first can have learned either rule; where a relative clause
    stands before it, only the rule about the tree is right (Lin et al. 2019, section 4; McCoy et al. 2018).
    """
    return [_labelled(row) for row in _rows("auxiliaries.jsonl") if row["part"] == part]


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shipped(name).read_text("utf-8").splitlines()]


def _labelled(row: dict[str, Any]) -> ProbeText:
    return ProbeText(row["text"], [(name, start, end) for name, start, end in row["labels"]])
