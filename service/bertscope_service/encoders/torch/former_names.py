"""Gives the tensors of checkpoints that other libraries wrote the names that transformers has for them today.

Only headers are read: a tensor that is several parameters of today, one after another, becomes as many shorter ones of the same
file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.weight_headers import Stored


def named_today(kind: type[Architecture], stored: Mapping[str, Stored]) -> Mapping[str, Stored]:
    """Returns tensors by today's names; where a checkpoint has both a former and today's name, today's."""
    if not kind.former_names and not kind.former_parts:
        return stored
    found: dict[str, Stored] = {}
    for tensor in stored.values():
        name = tensor.name
        for pattern, today in kind.former_names.items():
            name = re.sub(pattern, today, name)
        for part in _parts(kind, replace(tensor, name=name)):
            if part.name not in found or tensor.name == part.name:
                found[part.name] = part
    return found


def _parts(kind: type[Architecture], tensor: Stored) -> Iterator[Stored]:
    """Yields the parameters that a tensor holds along its first axis; itself if it is one, or can't be divided."""
    for former, names in kind.former_parts.items():
        before, at, after = tensor.name.partition(f"{former}.")
        count = len(names)
        if at and tensor.shape and tensor.shape[0] % count == 0:
            size = (tensor.end - tensor.begin) // count
            shape = (tensor.shape[0] // count, *tensor.shape[1:])
            for place, name in enumerate(names):
                begin = tensor.begin + place * size
                yield Stored(tensor.file, f"{before}{name}.{after}", tensor.dtype, shape, begin, begin + size)
            return
    yield tensor
