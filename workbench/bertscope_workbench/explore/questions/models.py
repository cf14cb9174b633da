"""The questions of the Models view, and of the model picker: what is loaded, load, unload, compress."""

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from types import MappingProxyType

import bertscope
from bertscope import AsyncClient, Model, NotFound, PermissionDenied, Unauthenticated
from bertscope.errors import invalid_argument
from bertscope.questions.compression.steps import Step

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.streams import Event, with_progress


async def models(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"models": [...]}`, the loaded models, the default model first; if `role` is true, also `"may_manage"`."""
    role = body.flag("role")
    body.done()
    found = await client.list_models()
    event: Event = {"models": [plain(model) for model in found]}
    yield event | ({"may_manage": await _may_manage(client)} if role else {})


async def load(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Loads `source` under `model_id`: yields the stages, then the model."""
    source, model_id = body.text("source"), body.optional_text("model_id")
    replace = body.flag("replace")
    body.done()
    async with aclosing(client.load_model_events(model_id, source=source, replace=replace)) as events:
        async for event in events:
            yield {"model" if isinstance(event, Model) else "progress": plain(event)}


async def unload(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Unloads `model`, and yields its name."""
    model = body.text("model")
    body.done()
    await client.unload_model(model)
    yield {"unloaded": model}


def compress(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Makes `model_id` of `model` by `steps`: yields the steps as they are taken, then the new model."""
    model, model_id = body.text("model"), body.text("model_id")
    steps = [_step(part) for part in body.parts("steps")]
    body.done()
    call = partial(client.compress_model, model_id, steps, model=model)
    return with_progress(call, lambda made: {"model": plain(made)})


STEPS: MappingProxyType[str, Callable[[Body], Step]] = MappingProxyType(
    {
        "onnx": lambda _: bertscope.onnx(),
        "int8": lambda _: bertscope.int8(),
        "fp16": lambda _: bertscope.half("fp16"),
        "bf16": lambda _: bertscope.half("bf16"),
        "weight_only": lambda step: bertscope.weight_only(step.whole("bits")),
        "layers": lambda step: bertscope.keep_layers(step.wholes("layers")),
        "ffn": lambda step: bertscope.remove_feed_forward(step.number("share")),
        "magnitude": lambda step: bertscope.magnitude(step.number("share")),
        "untrained": lambda step: bertscope.untrained(),
    }
)
"""Steps that the page offers, by their names in `bertscope compress --steps`, which has those that need texts, too."""


def _step(part: Body) -> Step:
    name = part.text("step")
    if name not in STEPS:
        raise invalid_argument("steps", f"has no step {name[:50]!r}; steps are {', '.join(STEPS)}")
    step = STEPS[name](part)
    part.done()
    return step


async def _may_manage(client: AsyncClient) -> bool:
    """Asks to unload a model that can't be there: a server says who may not before it looks for the model."""
    try:
        await client.unload_model(f"none-{secrets.token_hex(16)}")
    except NotFound:
        return True
    except (PermissionDenied, Unauthenticated):
        return False
    return True
