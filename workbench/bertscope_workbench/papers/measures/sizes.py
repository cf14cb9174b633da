"""Measures what a compressed copy of the model loses. The copy is made on the server and unloaded again."""

from contextlib import suppress
from uuid import uuid4

import bertscope
from bertscope import NotFound, PermissionDenied, ResourceExhausted
from bertscope.values.models import short_name

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.measures.sentences import source
from bertscope_workbench.papers.measures.silencing import NO_MORE, losses, untouched
from bertscope_workbench.papers.pictures_data import bars


def int8(asking: Asking) -> Measured:
    """Measures the loss at masked words with weights and activations in 8-bit integers, beside that of the model (Zafrir et al.
    2019, without its training)."""
    own = untouched(asking)
    name = f"{short_name(asking.model)}-int8-{uuid4().hex[:8]}"
    try:
        copy = asking.client.compress_model(name, bertscope.int8(), model=asking.model, timeout=asking.timeout)
    except (PermissionDenied, ResourceExhausted) as error:
        raise NotAsked(f"the server makes no compressed copy: {error}") from error
    try:
        compressed = losses(asking, NO_MORE, model=copy)[:, 0]
    finally:
        with suppress(NotFound):
            asking.client.unload_model(copy)
    size = copy.weight_bytes / asking.model.weight_bytes
    return paired(
        compressed,
        own,
        data=source(asking, len(own)),
        picture=bars("loss, nats", {"model": float(own.mean()), "8-bit integers": float(compressed.mean())}),
        notes=[f"its files of weights take {size:.0%} of the bytes of the model's"],
    )
