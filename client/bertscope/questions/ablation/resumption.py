"""Resumes a sweep that was cut short: requests the remaining effects, of the same model and with the same numbers. Pure.

The effect of changing one set does not depend on other sets, so the received effects stay valid. A difference that would make
the rest inconsistent with them is rejected by name.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from os import PathLike
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from bertscope.errors import FailedPrecondition, invalid_argument
from bertscope.questions.ablation.effects import HeadSet
from bertscope.questions.ablation.sweeps import SweepStart, SweepTable
from bertscope.v1 import ablation_pb2, common_pb2
from bertscope.values.messages import enum_name
from bertscope.values.results import Provenance

SAME = 1e-5
"""Relative difference of two scores caused by batches of another shape, or another processor."""

ITEMS = {
    "masked_lm_loss": "texts",
    "cloze": "prompts",
    "minimal_pairs": "pairs",
    "classification": "texts",
    "divergence": "inputs",
    "question_answering": "questions",
}
"""The field with the items of each kind of objective."""


def asked(request: ablation_pb2.SweepHeadsRequest) -> dict[str, Any]:
    """Returns a sweep's request in JSON types, long values as digests; the model is added later, by its weights."""
    kind = request.objective.WhichOneof("kind") or ""
    options = _plain(getattr(request.objective, kind)) if kind else {}
    items = options.pop(ITEMS.get(kind, ""), [])
    bootstrap = request.bootstrap
    return {
        "objective": kind,
        "items": f"{len(items)}, {json_digest(items)}",
        "options of the objective": {**options, "truncate": request.objective.truncate},
        "mode": enum_name(common_pb2.HeadIntervention.Mode, request.mode),
        "factor": request.scale if request.HasField("scale") else None,
        "scope": scope_of(request),
        "sets": f"{len(request.sets)}, {json_digest(list(map(_plain, request.sets)))}" if request.sets else None,
        "interventions": list(map(_plain, request.interventions)),
        "site changes": json_digest(list(map(_plain, request.site_interventions))) if request.site_interventions else None,
        "reference texts": f"{len(request.reference_texts)}, {json_digest(list(request.reference_texts))}",
        "greedy": _plain(request.greedy) if request.HasField("greedy") else None,
        "seed": bootstrap.seed,
        "resamples": bootstrap.resamples if bootstrap.HasField("resamples") else None,
        "confidence": bootstrap.confidence if bootstrap.HasField("confidence") else None,
    }


def scope_of(request: ablation_pb2.SweepHeadsRequest) -> str:
    """Returns "heads", "layers", or "sets" if they are given."""
    by_layer = request.scope == ablation_pb2.SweepHeadsRequest.SCOPE_EVERY_LAYER
    return "sets" if request.sets else "layers" if by_layer else "heads"


def begin(
    request: ablation_pb2.SweepHeadsRequest, start_from: SweepTable | str | PathLike[str] | None
) -> tuple[ablation_pb2.SweepHeadsRequest, SweepTable | None]:
    """Returns the request to send, and the earlier sweep that it resumes. Raises as `resume`, and OSError."""
    if start_from is None:
        return request, None
    if not isinstance(start_from, (SweepTable, str, PathLike)):
        raise invalid_argument("start_from", f"start_from must be a SweepTable or its file, not {type(start_from).__name__}")
    earlier = start_from if isinstance(start_from, SweepTable) else SweepTable.load(start_from)
    return resume(request, earlier), earlier


def resume(request: ablation_pb2.SweepHeadsRequest, earlier: SweepTable) -> ablation_pb2.SweepHeadsRequest:
    """Returns the request for the effects that an earlier sweep has not measured.

    Resamples and confidence that the request leaves open are those of the earlier one. Raises InvalidArgument, naming the first
    difference, unless both requests are the same.
    """
    if not earlier.asked or not earlier.provenance.weights_digest:
        raise invalid_argument(
            "start_from", "start_from does not say what it was asked, or of which weights; measure all again"
        )
    now = asked(request)
    was = dict(earlier.asked)
    for name, used in (("resamples", earlier.resamples), ("confidence", earlier.confidence)):
        was[name], now[name] = used, used if now[name] is None else now[name]
    for name, value in now.items():
        if was.get(name) != value:
            raise invalid_argument(
                "start_from",
                f"start_from was measured with {name} {_shown(was.get(name))}, and this sweep is asked with {name} "
                f"{_shown(value)}; give the same {name}, or leave start_from out and measure all",
            )
    rest = ablation_pb2.SweepHeadsRequest()
    rest.CopyFrom(request)
    rest.bootstrap.resamples, rest.bootstrap.confidence = earlier.resamples, earlier.confidence
    rest.done.extend(map(_head_set, done(earlier)))
    return rest


def done(earlier: SweepTable) -> list[HeadSet]:
    """Returns the sets that an earlier sweep has measured or, of a curve, removed."""
    return [effect.heads for effect in earlier.effects] + [heads for point in earlier.points for heads in point.added]


def check_start(earlier: SweepTable, start: SweepStart) -> None:
    """Raises FailedPrecondition, naming the difference, unless the rest is measured by the same weights, in the same way."""
    number = len(done(earlier))
    if start.done != number:
        raise _other("number of measured sets that the server leaves out", number, start.done, "ask a server of this version")
    was, now = earlier.provenance, start.provenance
    if now is None:
        raise _other("provenance", was.weights_digest, None, "ask a server of this version")
    for name, (one, other) in _traits(was, now).items():
        if one != other:
            raise _other(name, one, other, f"ask a server and a model with {name} {_shown(one)}")
    counts = ("items", "skipped_items", "truncated_texts", "predicted_pieces")
    for name in counts:
        if getattr(earlier.start, name) != getattr(start, name):
            raise _other(name, getattr(earlier.start, name), getattr(start, name), "measure all again")
    for metric, score in start.baseline.items():
        before = earlier.start.baseline.get(metric)
        if before is None or not math.isclose(before, score, rel_tol=SAME, abs_tol=SAME):
            raise _other(f"baseline {metric}", before, score, "ask the server that began, or measure all again")


def _traits(was: Provenance, now: Provenance) -> Mapping[str, tuple[Any, Any]]:
    """Returns the parts of two provenances that must be equal; the number of a device does not matter."""
    versions = {
        f"version of {library}": (was.library_versions.get(library), now.library_versions.get(library))
        for library in sorted({*was.library_versions, *now.library_versions})
    }
    return {
        "weights digest": (was.weights_digest, now.weights_digest),
        "runtime": (was.runtime, now.runtime),
        "device": (was.device.partition(":")[0], now.device.partition(":")[0]),
        "precision": (was.precision, now.precision),
        **versions,
    }


def _other(name: str, was: Any, now: Any, remedy: str) -> FailedPrecondition:
    message = f"start_from was measured with {name} {_shown(was)}, and this server has {_shown(now)}; {remedy}"
    return FailedPrecondition(message, reason="CLIENT_SIDE", metadata={"before": _shown(was), "now": _shown(now)})


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _head_set(heads: HeadSet) -> ablation_pb2.HeadSet:
    return ablation_pb2.HeadSet(layers=[common_pb2.LayerHeads(layer=layer, heads=heads[layer]) for layer in sorted(heads)])


def _plain(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def json_digest(value: object) -> str:
    """Returns a digest of a value of JSON types."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
