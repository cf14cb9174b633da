"""Derives files from the rpcs: Envoy's routes, gRPC's service config, and tables on the pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tools.protos.contract import Rpc
from tools.protos.sections import filled
from tools.structure.measures import ROOT

SERVICE_CONFIG = Path("protos/bertscope/v1/bertscope_grpc_service_config.json")
ENVOY, CLIENTS, SECURITY = Path("deploy/envoy/envoy.yaml"), Path("docs/clients.md"), Path("docs/security.md")
INTERVENTIONS, PYTHON = Path("docs/interventions.md"), Path("docs/python.md")
ALERTS = Path("deploy/prometheus/alerts.yml")
CALLS = ROOT / "client/bertscope"

PROBE_SECONDS, ANSWER_SECONDS = 5, 60
"""Time limits for clients that load the service config and set no deadline: of a probe, and of a unary call that is answered
soon. Streams, and calls that may work for hours, have no limit."""

MODEL = re.compile(r"{(?:name|model)=models/\*}")
"""The part of a path that names a model."""

RETRY_POLICY = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 3,
    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
}
"""The policy of the Python client."""

HEALTH_CHECK = {"serviceName": ""}
"""A client that balances with round_robin watches the health of each server as a whole and calls only those that serve."""


def service_config(rpcs: Iterable[Rpc]) -> str:
    """Returns gRPC's service config as JSON: which calls are retried, how long each may take, and that health counts."""
    ordered = sorted(rpcs, key=_treatment)
    entries = [_entry(seconds, idempotent, list(same)) for (seconds, idempotent), same in groupby(ordered, _treatment)]
    config = {"healthCheckConfig": HEALTH_CHECK, "methodConfig": [entry for entry in entries if len(entry) > 1]}
    return json.dumps(config, indent=2) + "\n"


def _treatment(rpc: Rpc) -> tuple[int, bool]:
    """Returns the limit in seconds, 0 for none, and whether a call may be retried."""
    if rpc.work == "probe":
        return PROBE_SECONDS, rpc.idempotent
    soon = rpc.work == "interactive" or (rpc.work == "control" and rpc.idempotent)
    return ANSWER_SECONDS if soon and not rpc.streaming else 0, rpc.idempotent


def _entry(seconds: int, idempotent: bool, rpcs: Sequence[Rpc]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": [{"service": rpc.service, "method": rpc.name} for rpc in rpcs]}
    if seconds:
        entry["timeout"] = f"{seconds}s"
    if idempotent:
        entry["retryPolicy"] = RETRY_POLICY
    return entry


def envoy(text: str, rpcs: Sequence[Rpc]) -> str:
    """Returns Envoy's configuration with the routes of retryable calls, and the services that are served as JSON."""
    routes = [
        f"- {{match: {{path: {rpc.path}}}, route: {{cluster: bertscope, timeout: 0s{_priority(rpc)}}}}}"
        for rpc in rpcs
        if rpc.idempotent
    ]
    services = [f"- {service}" for service in sorted({rpc.service for rpc in rpcs if rpc.http})]
    return filled(filled(text, "routes", routes), "services", services)


def _priority(rpc: Rpc) -> str:
    """Returns the part of a route that takes a call out of the limit on short calls."""
    return "" if rpc.work == "interactive" and not rpc.streaming else ", priority: HIGH"


def clients_page(text: str, rpcs: Sequence[Rpc]) -> str:
    """Returns docs/clients.md with its table of calls and paths."""
    return filled(text, "paths", _paths(rpcs))


def _paths(rpcs: Iterable[Rpc]) -> Iterator[str]:
    yield from ("| call | path |", "|---|---|")
    for rpc in rpcs:
        if rpc.http:
            ways = [f"`{verb} {MODEL.sub('models/{id}', path)}`" for verb, path in rpc.http]
            yield f"| {rpc.name} | {', or '.join(ways)} |"


def security_page(text: str, rpcs: Sequence[Rpc]) -> str:
    """Returns docs/security.md with its table of roles, and the interactive calls."""
    interactive = [rpc.name for rpc in rpcs if rpc.work == "interactive"]
    return filled(filled(text, "roles", _roles(rpcs)), "interactive", [f"Interactive calls are {_listed(interactive)}."])


def _roles(rpcs: Sequence[Rpc]) -> Iterator[str]:
    names = {role: ", ".join(rpc.name for rpc in rpcs if rpc.role == role) for role in ("anyone", "read", "admin")}
    yield from ("| role | may |", "|---|---|")
    yield f"| `read` | ask: {names['read']}, reflection |"
    yield f"| `admin` | also change things: {names['admin']}, and look inside with channelz |"
    yield f"| none needed | health, and {names['anyone']}, for probes |"


def interventions_page(text: str, rpcs: Sequence[Rpc]) -> str:
    """Returns docs/interventions.md with the calls that take interventions."""
    calls = _listed([rpc.name for rpc in rpcs if rpc.interventions])
    return filled(text, "calls", [f"{calls} take head interventions, and [changes at other sites](sites.md)."])


def python_page(text: str, rpcs: Sequence[Rpc]) -> str:
    """Returns docs/python.md with the client's methods for rpcs; those that it lacks are left out."""
    methods = [re.sub("(?<!^)([A-Z])", r"_\1", rpc.name).lower() for rpc in rpcs]
    client = "".join(path.read_text(encoding="utf-8") for path in sorted(CALLS.glob("questions/*/*calls.py")))
    there = [f"`{name}`" for name in methods if re.search(rf" def {name}\(| {name} = (?:whole|gathered)\(", client)]
    return filled(text, "methods", [f"{_listed(there)}."])


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def alerts(text: str, rpcs: Sequence[Rpc]) -> str:
    """Returns Prometheus' alerts, of which one is about unary calls that are answered soon."""
    short = "|".join(rpc.name for rpc in rpcs if rpc.work == "interactive" and not rpc.streaming)
    return filled(text, "short", [f'expr: job_instance_method:bertscope_request_seconds:p99_rate5m{{method=~"{short}"}} > 2'])


PAGES: Mapping[Path, Callable[[str, Sequence[Rpc]], str]] = {
    ENVOY: envoy,
    CLIENTS: clients_page,
    SECURITY: security_page,
    INTERVENTIONS: interventions_page,
    PYTHON: python_page,
    ALERTS: alerts,
}
"""Files with generated sections, and the functions that write them."""
