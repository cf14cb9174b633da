"""Claims whose measures are given by a test, and a server's models as a client names them."""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from bertscope import FailedPrecondition, Model
from bertscope.values.models import read_model
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.claim import Claim, ClaimTest, Quoted
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired, shares
from bertscope_workbench.papers.pictures_data import bars, curves, grid

from tests.support.fake_server import model

Measure = Callable[[Asking], Measured]
STUDY = 'title = "Mine"\npaper = "None"\n'
"""The beginning of a file of claims."""


def reproduction_toml(name: str, keys: str) -> str:
    """Returns a claim with a reproduction of these keys, as a file of one's own declares it."""
    return f"""
[[claim]]
name = "{name}"
title = "{name.capitalize()}"
claim = "Which of {name}?"
explained = "The likelier one."

[claim.reproduction]
{keys.strip()}
"""


FORMS = reproduction_toml("forms", 'reader = "table"\nfiles = ["forms.csv"]\nask = "choice"')
"""A reproduction by a table of choices."""


def a_test(function: Measure, name: str = "first", **changed: Any) -> ClaimTest:
    """Returns a test with a measure; its share must be above .1."""
    given: dict[str, Any] = {
        "measured": "share of right answers",
        "unit": "share",
        "control": "chance",
        "holds": "above",
        "threshold": 0.1,
        "reason": "less could not be told from chance with these items",
        "measure": f"given.{name}",
        "options": {},
        "least_items": 20,
        "commands": ["bertscope fill TEXT --model {model}"],
        "seconds": 1.0,
    }
    return ClaimTest(name=name, function=function, **(given | changed))


def a_claim(tests: Sequence[ClaimTest], name: str = "one", **changed: Any) -> Claim:
    """Returns a claim of section 4 with these tests."""
    given: dict[str, Any] = {
        "section": "4",
        "section_title": "Knowledge",
        "title": f"Claim {name}",
        "claim": "A model knows <something>.",
        "explained": "Somebody asks whether it does.",
        "paper": "Nobody 2020",
        "needs": (),
        "languages": (),
        "learned": True,
        "learned_reason": "",
        "verdict": "all",
        "published": [Quoted("bert-base", "83 %", "Nobody 2020, Table 1")],
    }
    return Claim(name=name, tests=tests, **(given | changed))


PICTURE = curves("layer", [0, 1, 2], "accuracy", {"probe": [0.2, math.nan, 0.6]})


def right(asking: Asking) -> Measured:
    """Finds 45 of 50 right."""
    return shares([True] * 45 + [False] * 5, 0.5, data="50 made items", picture=PICTURE)


def wrong(asking: Asking) -> Measured:
    """Finds 5 of 50 right."""
    return shares([True] * 5 + [False] * 45, 0.5, data="50 made items", picture=bars("share", {"a": 0.2}, {"a": (0.1, 0.3)}))


def one_model(asking: Asking) -> Measured:
    """Finds a mean of .5 over 40 items, .3 more than the control."""
    values = [0.1, 0.9] * 20
    return paired(values, 0.2, bounds=(-1, 1), data="40 made items", picture=grid([[0.1, -0.2]], "weight"), notes=["a note"])


def nothing(asking: Asking) -> Measured:
    """Lacks its data."""
    raise NotAsked("no treebank is there")


def refused(asking: Asking) -> Measured:
    """Is refused by the server."""
    raise FailedPrecondition("it has no heads", reason="NO_HEADS")


CLAIMS = [
    a_claim([a_test(right), a_test(one_model, "second")], "mixed"),
    a_claim([a_test(wrong)], "false"),
    a_claim([a_test(nothing), a_test(refused, "second")], "unasked"),
    a_claim([a_test(right)], "headed", needs=["no-such-capability"]),
    a_claim([a_test(right)], "korean", languages=["ko"]),
]
"""Claims that come to holds, does not hold, and three reasons for not asked."""


class Hosted:
    """A client of a server that hosts models of these names, loads others, and finds texts some nats likelier than by guessing,
    every second one a nat more; it answers nothing else."""

    def __init__(self, *names: str, gain: float = 3.0) -> None:
        self.gain = gain
        self.models = {name: read_model(model(f"models/{name}")) for name in names}
        self.events: list[str] = []

    def get_model(self, name: str | Model | None = None) -> Model:
        """Returns a model, the first by default."""
        if isinstance(name, Model):
            return name
        return self.models[name] if name else next(iter(self.models.values()))

    def list_models(self) -> list[Model]:
        """Returns the models."""
        return [*self.models.values()]

    def score_texts(self, texts: Sequence[str], *, model: Model, **_: object) -> list[SimpleNamespace]:
        """Scores texts of one piece each."""
        guessed = -math.log(model.vocabulary_size)
        return [SimpleNamespace(log_likelihood=guessed + self.gain + each % 2, scored_pieces=1) for each in range(len(texts))]

    def load_model(self, name: str, *, source: str, revision: str | None = None) -> Model:
        """Notes a load."""
        self.events.append(f"load {name} {source}{f'@{revision}' if revision else ''}")
        return read_model(model(f"models/{name}"))

    def unload_model(self, model: Model) -> None:
        """Notes the end of a load."""
        self.events.append(f"unload {model.name.removeprefix('models/')}")
