"""The path that all questions take: what is checked, held, run and rendered, in which order, on the loop or off it."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from bertscope.v1 import cloze_pb2
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.analyses.rounds import Rounds
from bertscope_service.api import answer as path
from bertscope_service.api.answer import Backend, Call, answer
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.reply_memory import REPLIES_BYTES, ReplyMemory
from bertscope_service.api.request_memory import RequestMemory
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import Overloaded
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.observability.metrics import Metrics
from bertscope_service.security import callers

from tests.support.fakes import FakeEncoder, SumObserver

pytestmark = pytest.mark.asyncio

LIMITS = RequestLimits(texts=4, text_characters=10_000, candidates=10, tokens=100)


class SumPlan:
    """A row of three tokens for each text; the reply says what they sum up to."""

    def __init__(self, texts: Sequence[str], reply_bytes: int, tokens: int) -> None:
        self.rows = [(TokenSequence([1] * tokens, [0] * tokens), SumObserver()) for _ in texts]
        self.reply_bytes = reply_bytes


class CountDown(Rounds):
    """Runs one row less in each round, with the sum of the round before for its tokens."""

    def __init__(self, rows: int, reply_bytes: int) -> None:
        self.reply_bytes = reply_bytes
        self.found: list[list[int]] = []
        self._ask([1, 1, 1], rows)

    def _ask(self, ids: list[int], rows: int) -> None:
        self.rows = [(TokenSequence(ids, [0] * len(ids)), SumObserver()) for _ in range(rows)]

    def advance(self, results: Sequence[Any]) -> None:
        self.found.append(list(results))
        self._ask([sum(results)], len(self.rows) - 1)


class Site:
    """A server's parts that note what happens to a call."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.threads: dict[str, bool] = {}
        """Whether each step ran on the loop."""
        self.reply_bytes, self.tokens = 100, 3
        self.results: Any = None
        self.rounds = 0
        self.stops_at = 0
        self.options: list[dict[str, Any]] = []
        self.planned: Any = None
        self.memory = ReplyMemory(Metrics())
        tokenizer = SimpleNamespace(max_tokens=512, mask_id=4, growth=1)
        self.model: Any = SimpleNamespace(name="models/m", encoder=FakeEncoder(), tokenizer=tokenizer)
        backend: Any = Backend(self, self, LIMITS, None, self.memory, RequestMemory(Metrics()))  # type: ignore[arg-type]
        self.backend: Backend = backend

    def _note(self, event: str) -> None:
        self.events.append(event)
        self.threads[event] = threading.current_thread() is threading.main_thread()

    @contextmanager
    def use(self, name: str) -> Iterator[LoadedModel]:
        self._note(f"use {name}")
        try:
            yield self.model
        finally:
            self._note("leave")

    async def compute(self, work: Callable[[], Any], **_: Any) -> Any:
        return await asyncio.to_thread(work)

    async def run(self, rows: Sequence[Any], **options: Any) -> list[Any]:
        self._note(f"run {len(rows)}")
        self.held = self.memory.total
        self.options.append(options)
        if self.stops_at == len(self.options):
            raise asyncio.CancelledError
        if isinstance(self.results, BaseException):
            raise self.results
        return [sum(row.sequence.ids) for row in rows]

    def plan(self, request: cloze_pb2.FillMaskRequest, model: LoadedModel, limits: RequestLimits) -> SumPlan:
        self._note("plan")
        if self.rounds:
            self.planned = CountDown(self.rounds, self.reply_bytes)
            return self.planned  # type: ignore[no-any-return]
        return SumPlan(request.texts, self.reply_bytes, self.tokens)

    def render(self, plan: SumPlan, results: list[int], model: LoadedModel) -> list[int]:
        self._note("render")
        return results

    async def ask(self, *texts: str, **fields: Any) -> list[int]:
        """Answer a request in a task of its own, as gRPC does."""
        callers.current.set("me")
        context: Any = SimpleNamespace(time_remaining=lambda: None)
        request = cloze_pb2.FillMaskRequest(texts=texts, **fields)
        asked = answer(self.backend, request, context, self.plan, self.render, model="models/m")
        try:
            return await asyncio.create_task(asked)
        finally:
            await asyncio.sleep(0)  # what the end of the task calls comes after this one is woken


@pytest.fixture
def site() -> Site:
    return Site()


async def test_what_is_large_is_planned_and_rendered_off_the_loop(site: Site) -> None:
    site.reply_bytes = path.INLINE_REPLY_BYTES + 1
    await site.ask("a" * path.INLINE_CHARACTERS)
    assert not site.threads["plan"]
    assert not site.threads["render"]
    assert site.threads["run 1"]


async def test_a_reply_without_room_is_refused_before_its_rows_run(site: Site) -> None:
    site.reply_bytes = REPLIES_BYTES
    with pytest.raises(Overloaded) as caught:
        await site.ask("a")
    assert caught.value.reason == "REPLIES_FULL"
    assert site.events == ["use models/m", "plan", "leave"]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("a bug"), Overloaded("full", "QUEUE_FULL", 1.0)])
async def test_whatever_ends_a_call_lets_go_of_its_model_and_its_room(site: Site, error: BaseException) -> None:
    site.results = error
    with pytest.raises(type(error)):
        await site.ask("a")
    assert site.events[-1] == "leave"
    assert site.memory.total == 0


async def test_rows_of_bulk_work_know_no_bound_of_tokens(site: Site) -> None:
    site.tokens = 1000
    request, call = cloze_pb2.FillMaskRequest(texts=["a"]), Call(site.backend, site.model, "me", None)
    plan, conditions = await call.read(request, site.plan, large=False)  # type: ignore[arg-type]
    assert len(plan.rows[0][0]) == 1000
    assert (conditions.interventions.untouched, list(conditions.references)) == (Interventions.none(2, 1).untouched, [])


async def test_a_plan_of_several_rounds_runs_until_it_has_no_rows(site: Site) -> None:
    """Each round gets the results of the one before; only the first can be rejected by a full queue."""
    site.rounds = 3
    await site.ask("a")
    assert site.events == ["use models/m", "plan", "run 3", "run 2", "run 1", "render", "leave"]
    assert site.planned.found == [[3, 3, 3], [9, 9], [18]]
    assert [options["admitted"] for options in site.options] == [False, True, True]
    assert len({(options["client"], options["deadline"]) for options in site.options}) == 1


async def test_a_cancelled_call_runs_no_further_round(site: Site) -> None:
    site.rounds, site.stops_at = 3, 2
    with pytest.raises(asyncio.CancelledError):
        await site.ask("a")
    assert site.events == ["use models/m", "plan", "run 3", "run 2", "leave"]
    assert site.memory.total == 0


async def test_a_reply_counts_during_all_rounds(site: Site) -> None:
    site.rounds, site.reply_bytes = 3, 5000
    await site.ask("a")
    assert site.held == 5000
    assert site.memory.total == 0


async def test_large_rounds_are_made_off_the_loop(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows run on it."""
    made: list[bool] = []
    advance = CountDown.advance

    def noted(plan: CountDown, results: Sequence[Any]) -> None:
        made.append(threading.current_thread() is threading.main_thread())
        advance(plan, results)

    monkeypatch.setattr(CountDown, "advance", noted)
    monkeypatch.setattr(path, "INLINE_ROWS", 2)
    site.rounds = 3
    await site.ask("a")
    assert made == [False, True, True]
    assert site.threads["run 1"]
