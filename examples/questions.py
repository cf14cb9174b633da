"""Write questions about capitals, for examples/finetune.py: passages of a few sentences, of which every fifth lacks the answer.

    python -m examples.questions train.jsonl dev.jsonl
    python -m examples.finetune --task answers --train train.jsonl --dev dev.jsonl --output qa

The countries of the second file are others than those of the first, so that no answer can be known by heart.
"""

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

COUNTRIES = Path(__file__).with_name("countries.tsv")
SENTENCES = ("The capital of {} is {}.", "{1} is the capital of {0}.", "In {}, the government sits in {}.", "{1} lies in {0}.")
ASKED = ("What is the capital of {}?", "Which city is the capital of {}?")
PER_COUNTRY = 10


def questions(facts: Sequence[tuple[str, str]], chance: random.Random) -> Iterator[dict[str, object]]:
    """Yield some questions about each country."""
    for country, capital in facts:
        others = [fact for fact in facts if fact[0] != country]
        for number in range(PER_COUNTRY):
            told = chance.sample(others, 3)
            answered = number % 5 > 0
            sentences = [chance.choice(SENTENCES).format(*fact) for fact in told]
            if answered:
                sentences.insert(chance.randrange(4), chance.choice(SENTENCES[:2]).format(country, capital))
            asked = chance.choice(ASKED).format(country)
            yield {"question": asked, "passage": " ".join(sentences), "answer": [capital] if answered else []}


def main(train: str, dev: str) -> None:
    facts = [tuple(line.split("\t")) for line in COUNTRIES.read_text(encoding="utf-8").splitlines()[1:]]
    chance = random.Random(0)  # noqa: S311 - the same questions every time
    chance.shuffle(facts)
    for path, part in ((train, facts[:180]), (dev, facts[180:])):
        lines = (json.dumps(one, ensure_ascii=False) for one in questions([(fact[0], fact[1]) for fact in part], chance))
        Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
