"""Shows and changes the vectors inside layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch

from bertscope_service.encoders.site_edits import SiteEdits
from bertscope_service.encoders.sites import INNER, Site
from bertscope_service.encoders.torch.architectures.architecture import Architecture


@contextmanager
def changing_sites(architecture: Architecture, layer: int, sites: SiteEdits) -> Iterator[None]:
    """Changes the vectors at the inner sites of a layer, on padded rows. That layer alone may run meanwhile: ALBERT's
    layers are one module."""

    def change(site: Site, value: torch.Tensor) -> torch.Tensor:
        vectors = architecture.by_token(value).unsqueeze(3 if site is Site.ACTIVATIONS else 2)
        return architecture.by_token(sites.apply((site, layer), vectors).flatten(2))

    with ExitStack() as hooks:
        for site in sorted(INNER & {site for site, of in sites.places if of == layer}, key=lambda one: one.value):
            hook = _register(architecture, layer, site, partial(change, site))
            hooks.callback(hook.remove)
        yield


def _register(
    architecture: Architecture, layer: int, site: Site, change: Callable[[torch.Tensor], torch.Tensor]
) -> torch.utils.hooks.RemovableHandle:
    if site is Site.ACTIVATIONS:
        return architecture.second_matrix(layer).register_forward_pre_hook(lambda _, read: (change(read[0]), *read[1:]))
    module = architecture.second_matrix(layer) if site is Site.FEED_FORWARD_OUTPUT else architecture.output_projection(layer)
    hook: torch.utils.hooks.RemovableHandle = module.register_forward_hook(lambda _, read, written: change(written))
    return hook
