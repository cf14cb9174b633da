"""Many threads, or tasks, share one client of a real server: every answer is right, beside loads and cancelled calls."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import bertscope
import numpy as np

from tests.support.harness import Host

CALLERS = 16
CALLS = 12
LOADS = 3
TEXTS = [[f"The cat sat on the old [MASK] in {1900 + 20 * caller + extra}." for extra in range(3)] for caller in range(CALLERS)]

Answers = list[tuple[str, list[tuple[str, float]]]]


def read(filled: bertscope.FilledTexts) -> Answers:
    """What callers compare: each text, and its predictions."""
    return [(text.text, [(found.token, found.probability) for found in text.masks[0].predictions]) for text in filled]


def alike(given: Answers, expected: Answers) -> bool:
    """Whether answers are the same: in another batch they may differ in their last bits."""
    same = [(text, [token for token, _ in found]) for text, found in given]
    if same != [(text, [token for token, _ in found]) for text, found in expected]:
        return False
    first, second = ([[number for _, number in found] for _, found in answers] for answers in (given, expected))
    return np.allclose(first, second, rtol=1e-4)


def test_threads_that_share_a_client(launch: Callable[..., Host], checkpoints: dict[str, Path]) -> None:
    with bertscope.Client(launch().target) as client:
        expected = [read(client.fill_mask(texts, model="bert")) for texts in TEXTS]
        maps = next(client.extract_attention("a cat"))

        def fill(caller: int) -> list[bool]:
            return [alike(read(client.fill_mask(TEXTS[caller], model="bert")), expected[caller]) for _ in range(CALLS)]

        def observe() -> list[bool]:
            found = [next(client.extract_attention("a cat")) for _ in range(CALLS)]  # the rest of each stream is cancelled
            return [np.allclose(each.attention, maps.attention, atol=1e-5) for each in found]

        def load() -> list[bool]:
            done = []
            for _ in range(LOADS):
                model = client.load_model("other", source=str(checkpoints["roberta"]))
                done.append(client.get_model("other").name == model.name)
                client.unload_model(model)
            return done

        with ThreadPoolExecutor(CALLERS + 2) as pool:
            tasks = [pool.submit(load), pool.submit(observe), *(pool.submit(fill, caller) for caller in range(CALLERS))]
            wait(tasks)
            assert all(all(task.result()) for task in tasks)


def test_tasks_beyond_a_connection_s_streams_wait(launch: Callable[..., Host]) -> None:
    """The client holds them back; none is refused because the server has yet to free a stream that has ended."""

    async def fill(target: str) -> list[bertscope.FilledTexts]:
        async with bertscope.AsyncClient(target, retries=0) as client:
            return await asyncio.gather(*(client.fill_mask(texts) for texts in TEXTS * 10))

    assert len(asyncio.run(fill(launch(max_streams=4).target))) == 10 * CALLERS
