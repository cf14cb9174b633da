"""Sentences of the shipped treebank as files have them."""

import gzip

from bertscope_workbench.papers.items import shipped


def written(count: int, most_words: int | None = None) -> str:
    """Returns the CoNLL-U of the first sentences, of at most so many words."""
    blocks = gzip.decompress(shipped("treebank.conllu.gz").read_bytes()).decode().split("\n\n")
    fitting = [block.strip() for block in blocks if most_words is None or block.strip().count("\n") <= most_words]
    return "\n\n".join(fitting[:count]) + "\n\n"
