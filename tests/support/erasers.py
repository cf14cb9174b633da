"""Requests of TrainEraser: the sentences of tests.support.probes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from bertscope.v1 import representation_eraser_pb2 as erasers
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.v1 import site_pb2
from numpy.typing import NDArray

from tests.support.harness import Host
from tests.support.patience import granted
from tests.support.probes import LABELS, noisy

TRAIN, TEST = noisy(60, 1), noisy(20, 2)


@dataclass
class Erased:
    progress: list[probes.ProbeProgress]
    erasers: list[erasers.LayerEraser]
    report: erasers.EraserReport


def request(**fields: Any) -> erasers.TrainEraserRequest:
    return erasers.TrainEraserRequest(**{"train": TRAIN, "test": TEST, "labels": LABELS} | fields)


def erase(host: Host, **fields: Any) -> Erased:
    events: dict[str, list[Any]] = {"progress": [], "eraser": [], "report": []}
    for response in host.representation.TrainEraser(request(**fields), timeout=granted(60)):
        assert not events["report"]
        kind = str(response.WhichOneof("event"))
        events[kind].append(getattr(response, kind))
    (report,) = events["report"]
    return Erased(events["progress"], events["eraser"], report)


def arrays(projection: site_pb2.Projection) -> tuple[NDArray[np.float32], ...]:
    """left, right and mean."""
    sent = (projection.left, projection.right, projection.mean)
    return tuple(np.frombuffer(one.data, dtype="<f4").reshape(one.shape) for one in sent)


def applied(states: NDArray[Any], projection: site_pb2.Projection) -> NDArray[Any]:
    left, right, mean = (one.astype(np.float64) for one in arrays(projection))
    changed: NDArray[Any] = states - (states - mean) @ right.T @ left.T
    return changed
