"""Asks a server's models all claims, keeps the answers as they come, and goes on with those that an earlier run kept."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from bertscope import Client, FailedPrecondition, InvalidArgument, Model, Unimplemented
from bertscope.errors import CLIENT_SIDE, invalid_argument
from bertscope.values.display import record
from bertscope.values.models import short_name

from bertscope_workbench.papers.asking import Asking, Rejected
from bertscope_workbench.papers.claim import LANGUAGE, Claim, ClaimTest
from bertscope_workbench.papers.competence import untrained
from bertscope_workbench.papers.estimates import Measured, NotAsked, rounded
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.kept_results import KeptResults, identity
from bertscope_workbench.papers.published.kept_rows import KeptRows
from bertscope_workbench.papers.published.readers import WHERE
from bertscope_workbench.papers.published.reproduced import Reproduced, Reproducing, read_all
from bertscope_workbench.papers.published.reproduction import Reproduction
from bertscope_workbench.papers.verdicts import HOLDS, NOT_ASKED, UNKNOWN, JudgedClaim, JudgedTest, conclude, judge

REPRODUCTION_SECONDS = 60.0
"""The expected time of a reproduction, of which nobody says how long it takes."""
HEADS = {"cloze": "masked-LM head", "interventions": "heads that can be changed"}
"""By capability: what a model without it lacks, in words."""


@record
class ModelResults:
    """All claims about one model."""

    model: Model
    step: float | None
    """The number of training steps of this checkpoint, in a film of checkpoints."""
    claims: tuple[JudgedClaim, ...]
    asked: Mapping[str, str]
    """The settings that the answers depend on: weights, runtime, data, limit, languages and the models compared with."""


@record
class ClaimsRun:
    """The table of all claims."""

    claims: tuple[Claim, ...]
    models: tuple[ModelResults, ...]
    name: str = "primer"
    """"primer" for the survey's claims; else the study's name."""
    title: str = "The Primer, executed"

    def result(self, claim: str, model: int = 0) -> JudgedClaim:
        """Returns what came of a claim. Raises KeyError for a name that is none."""
        for result in self.models[model].claims:
            if result.claim.name == claim:
                return result
        raise KeyError(claim)


@record
class ClaimsProgress:
    """How far a run is."""

    model: str
    claim: str
    """The title of the claim that is asked."""
    done: int
    """Tests done, of all models."""
    total: int
    within: tuple[int, int | None]
    """How much of the current test is done, and of how much, if that is known."""
    seconds_left: float | None
    """An estimate of the time that is left, by how long the tests took so far; None before the first."""


OnProgress = Callable[[ClaimsProgress], object]


@record
class Compared:
    """Models and languages that some claims compare."""

    against: str | None = None
    """A second model, larger as a rule."""
    fine_tuned: str | None = None
    """A fine-tuned copy of the model."""
    baseline: str | None = None
    """A model that is asked, too, and that figures of reproductions are compared with."""
    languages: tuple[str, ...] = ("en",)
    """ISO 639-1 codes of the languages that the models read, each once."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for what is no code, and for one that is named twice."""
        for number, language in enumerate(self.languages):
            if not LANGUAGE.fullmatch(language):
                raise invalid_argument("languages", f"{language!r} is no ISO 639-1 code; write en, ko and so on")
            if language in self.languages[:number]:
                raise invalid_argument("languages", f"{language!r} is named twice; name each language once")


def _ready(client: Client, name: str | Model | None) -> Model:
    """Returns a hosted model. Raises NotFound for none, and FailedPrecondition for one that still loads: before, it has no
    capabilities, and no claim could be asked."""
    found = client.get_model(name)
    if found.state != "ready":
        raise FailedPrecondition(f"{short_name(found)} is {found.state}; ask again when it is ready", reason=CLIENT_SIDE)
    return found


@record(frozen=False)
class _Clock:
    """Estimates the time that is left by the time that claims say they take, scaled by what they took."""

    expected: float
    total: int
    on_progress: OnProgress | None
    done: int = 0
    passed: float = 0.0
    taken: float = 0.0
    kept: float = 0.0

    def tell(self, model: Model, claim: Claim, within: tuple[int, int | None] = (0, None)) -> None:
        if self.on_progress is not None:
            left = (self.expected - self.passed - self.kept) * self.taken / self.passed if self.passed else None
            self.on_progress(ClaimsProgress(short_name(model), claim.title, self.done, self.total, within, left))

    def finished(self, expected: float, seconds: float | None) -> None:
        """Notes a test that was expected to take so many seconds; without `seconds` it was answered earlier."""
        self.done += 1
        if seconds is None:
            self.kept += expected
        else:
            self.passed, self.taken = self.passed + expected, self.taken + seconds


def run_claims(
    client: Client,
    claims: Sequence[Claim],
    *,
    models: Sequence[str | Model | None] = (None,),
    steps: Sequence[float] | None = None,
    data: Data | None = None,
    compared: Compared | None = None,
    kept: KeptResults | None = None,
    timeout: float | None = None,
    on_progress: OnProgress | None = None,
    name: str = "primer",
    title: str = "The Primer, executed",
) -> ClaimsRun:
    """Asks every claim of every model, and the baseline last.

    `steps` are the training steps of the models, if they are checkpoints of one.

    `kept` keeps the answers in a file as they come, and has those of an earlier run, which are not asked again. Raises NotFound
    for a model that is not hosted, FailedPrecondition for one that is not ready and for kept answers of other weights, data or
    settings, InvalidArgument for steps that don't fit the models, and OSError for a file that can't be written.
    """

    def named(name: str | None) -> Model | None:
        return None if name is None else _ready(client, name)

    data = data or Data()
    reproductions = [claim.reproduction for claim in claims if claim.reproduction is not None]
    questions = read_all(reproductions, data.folder, data.limit, data.vocabulary, data.own)
    if all(not claim.tests and not questions[claim.name].read.items for claim in claims):
        missing = "; ".join(dict.fromkeys(each.missing.replace(WHERE, "") for each in questions.values() if each.missing))
        where = WHERE if data.folder is None else ""
        sources = dict.fromkeys(source for claim in claims for source in re.findall(r"github\.com/[\w/-]+", claim.paper or ""))
        where += f"; published at {', '.join(sources)}" if sources else ""
        raise invalid_argument("data", f"there is nothing to ask: {missing + where if missing else 'all items are skipped'}")
    hosted = [_ready(client, name) for name in models]
    if len({model.name for model in hosted}) < len(hosted):
        raise invalid_argument("models", "one model is named twice; name each once")
    if steps is not None and (len(steps) != len(hosted) or sorted(set(steps)) != [*steps]):
        raise invalid_argument("steps", "must be a number for each model, ascending")
    options = compared or Compared()
    baseline = named(options.baseline)
    if baseline is not None and baseline.name in {model.name for model in hosted}:
        raise invalid_argument("baseline", f"{short_name(baseline)} is one of the models; name another one")
    order = hosted if baseline is None else [baseline, *hosted]
    clock = _Clock(sum(map(_seconds, claims)) * len(order), sum(map(_parts, claims)) * len(order), on_progress)
    kept = kept or KeptResults(None)
    found: list[ModelResults] = []
    with closing(kept):
        reproducing = Reproducing(KeptRows(client, kept.items(), timeout), questions, hosted[0]) if questions else None
        for model in order:
            asking = Asking(
                client,
                model,
                data=data,
                against=named(options.against),
                fine_tuned=named(options.fine_tuned),
                languages=options.languages,
                timeout=timeout,
            )
            kept.begin(asking)
            with closing(asking):
                results = tuple(
                    _claim(asking, claim, kept, clock, reproducing, as_baseline=model is baseline) for claim in claims
                )
            step = None if steps is None or model is baseline else steps[len(found) - (baseline is not None)]
            found.append(ModelResults(model, step, results, identity(asking)))
    return ClaimsRun(tuple(claims), tuple(found if baseline is None else [*found[1:], found[0]]), name, title)


def _seconds(claim: Claim) -> float:
    return sum(test.seconds for test in claim.tests) + (REPRODUCTION_SECONDS if claim.reproduction else 0)


def _parts(claim: Claim) -> int:
    return len(claim.tests) + (claim.reproduction is not None)


def _claim(
    asking: Asking,
    claim: Claim,
    kept: KeptResults,
    clock: _Clock,
    reproducing: Reproducing | None,
    *,
    as_baseline: bool,
) -> JudgedClaim:
    results = []
    for test in claim.tests:
        answer = kept.find(asking, claim, test)
        if answer is None:
            asking.on_stage = lambda done, total: clock.tell(asking.model, claim, (done, total))
            clock.tell(asking.model, claim)
            answer = _ask(asking, claim, test)
            kept.add(asking, claim, test, answer)
            clock.finished(test.seconds, answer.seconds)
        else:
            clock.finished(test.seconds, None)
        results.append(_of_training(asking, claim, answer))
    reproduced = None
    if claim.reproduction is not None and reproducing is not None:
        asking.on_stage = lambda done, total: clock.tell(asking.model, claim, (done, total))
        clock.tell(asking.model, claim)
        reproduced = _reproduce(asking, claim, claim.reproduction, reproducing, as_baseline=as_baseline)
        clock.finished(REPRODUCTION_SECONDS, reproduced.seconds)
    return conclude(claim, results, reproduced)


def _reproduce(
    asking: Asking, claim: Claim, reproduction: Reproduction, reproducing: Reproducing, *, as_baseline: bool
) -> Reproduced:
    """Returns the figures of a reproduction; one that can't be asked says why."""
    started = time.monotonic()
    if why := _unfit(asking, claim):
        return Reproduced(reproducing.questions[reproduction.name], asking.model, "not asked", why)
    found = reproducing.ask(asking.model, reproduction, asking.show, as_baseline=as_baseline)
    return replace(found, seconds=time.monotonic() - started)


def _of_training(asking: Asking, claim: Claim, answer: JudgedTest) -> JudgedTest:
    """Returns an answer as it counts: a test of a claim that takes training holds for no model that may have none."""
    why = untrained(asking) if claim.learned and answer.verdict == HOLDS else ""
    return replace(answer, verdict=UNKNOWN, why=why) if why else answer


def _ask(asking: Asking, claim: Claim, test: ClaimTest) -> JudgedTest:
    """Returns the answer to a test; one that can't be asked says why."""
    if why := _unfit(asking, claim):
        return JudgedTest(test, NOT_ASKED, None, why)
    started = time.monotonic()
    asking.rejected = Rejected()
    try:
        measured: Measured = test.function(asking, **test.options)
    except NotAsked as error:
        return JudgedTest(test, NOT_ASKED, None, str(error), seconds=time.monotonic() - started)
    except (FailedPrecondition, InvalidArgument, Unimplemented) as error:
        if asking.data.folder is not None and str(asking.data.folder) in str(error):  # a broken file of the user's
            raise
        return JudgedTest(test, NOT_ASKED, None, f"the server's reason: {error}", seconds=time.monotonic() - started)
    notes = (*measured.notes, *asking.rejected.lines())
    return judge(test, replace(rounded(measured), notes=notes), time.monotonic() - started)


def _unfit(asking: Asking, claim: Claim) -> str:
    """Returns why a model can't be asked a claim; empty if it can."""
    name = short_name(asking.model)
    for capability in claim.needs:
        if capability not in asking.model.capabilities:
            return f"{name} has no {HEADS.get(capability, 'such head')} (capability {capability})"
    if claim.languages and not set(claim.languages) & set(asking.languages):
        return f"its items are in {', '.join(claim.languages)}, and {name} is asked in {', '.join(asking.languages)}"
    return ""
