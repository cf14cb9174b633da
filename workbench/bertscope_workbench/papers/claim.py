"""Defines a claim: a finding of the literature, how it is tested, and what settles it: a threshold, or the figures that a paper
published."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bertscope.values.display import record

from bertscope_workbench.papers.measures import Measure
from bertscope_workbench.papers.published.reproduction import Reproduction

Holds = Literal["above", "below"]
Rule = Literal["all", "each"]
LANGUAGE = re.compile(r"[a-z]{2,3}")


@record
class Quoted:
    """A figure that a paper gives, in words."""

    model: str
    """The paper's model."""
    figure: str
    """The figure in words and numbers."""
    source: str
    """Where it was read: paper and section or table."""


@record
class ClaimTest:
    """One way to settle a claim."""

    name: str
    measured: str
    """The number, a phrase."""
    unit: str
    """Its unit: "share", "nats", "cosine"."""
    control: str
    """The number to beat, a phrase."""
    holds: Holds
    """The side of the threshold on which the claim holds."""
    threshold: float
    """The number that the difference of value and control is compared with."""
    reason: str
    """Why this threshold."""
    measure: str
    """The measure, "module.function"."""
    options: Mapping[str, Any]
    """The measure's options."""
    least_items: int
    """With fewer independent items, the test can't tell."""
    commands: Sequence[str]
    """Commands that ask the same; "{model}" stands for the model."""
    seconds: float
    """Roughly what it takes for the embedded model on two cores: for the estimate of the time that is left."""
    function: Measure
    """The measure itself."""
    optional: bool = False
    """True for a test on more data: where it can't be asked, the others settle the claim."""


@record
class Claim:
    """A finding of the literature, as a question to any model."""

    name: str
    """Its name on the command line."""
    section: str
    """The section of the survey, or "Dark Secrets 4.1", or "since"."""
    section_title: str
    title: str
    claim: str
    """The finding, in our words."""
    explained: str
    """The question and why it matters, for a reader who does not know BERT."""
    paper: str
    """The papers, with their sections."""
    needs: Sequence[str]
    """Capabilities that a model must have."""
    languages: Sequence[str]
    """The languages of the items; empty: any."""
    learned: bool
    """True if only training can bring it about: a model of random weights must not show it."""
    learned_reason: str
    """Why random weights may show it, if they may."""
    verdict: Rule
    """"all": tests are parts of the claim, and it holds if all do; "each": they are several answers to one question, and it
    may hold in part; with one that can't be told, it doesn't hold."""
    tests: Sequence[ClaimTest]
    published: Sequence[Quoted]
    figure: str = ""
    """The test whose picture the page shows above the tests: not that of a test which only asks whether the model can do it at
    all. Empty: the first one."""
    reproduction: Reproduction | None = None
    """The test by published data and figures, if it has one."""
    found: str = ""
    """The words of the paper about it, where they are no figure."""
