"""A pod as deploy/kubernetes describes it, as a process: its variables, its Secrets, its probes."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bertscope
import pytest

from tests.support.certificates import Authority
from tests.support.kubernetes import CERTIFIED_NAMES, KUBERNETES, MUTUAL_TLS, Cluster, built
from tests.support.patience import granted
from tests.support.process import START_SECONDS, Process
from tools.deploy.manifests import kustomizations

pytestmark = pytest.mark.slow

MOUNTS = "/etc/bertscope"
PROBE_SECONDS = granted(60)
"""More than Kubernetes allows: other tests run beside this one."""


@pytest.fixture(scope="module")
def clusters() -> dict[str, Cluster]:
    """Each base and overlay, by its folder's name."""
    return {folder.name: built(folder) for folder in kustomizations(KUBERNETES)}


def mount(folder: Path, files: dict[str, str | bytes]) -> None:
    """Puts a Secret's files where a pod sees them."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def token_line(token: str) -> str:
    return f"alice read sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"


@dataclass
class Pod:
    """A pod of the overlay tls with mutual TLS."""

    process: Process
    folder: Path
    command: list[str]
    """What its probes run."""
    variables: dict[str, str]
    server_name: str

    def probe(self, *unset: str) -> subprocess.CompletedProcess[str]:
        """Run a probe in the pod, without some of its variables."""
        name, *arguments = self.command
        variables = {name: value for name, value in self.variables.items() if name not in unset}
        return subprocess.run(
            [Path(sys.executable).with_name(name), *arguments],
            env=os.environ | variables | {"BERTSCOPE_TARGET": self.process.target},
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )

    def client(self, token: str) -> bertscope.Client:
        """Somebody outside, with a certificate and a token."""
        tls = self.folder / "tls"
        return bertscope.Client(
            self.process.target,
            token=token,
            tls=bertscope.Tls(tls / "ca.crt", tls / "tls.crt", tls / "tls.key", server_name=self.server_name),
        )


@pytest.fixture(scope="module")
def pod(clusters: dict[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    folder, cluster = tmp_path_factory.mktemp("pod"), clusters["tls"]
    variables = {name: value.replace(MOUNTS, str(folder)) for name, value in (cluster.settings | MUTUAL_TLS).items()}
    authority = Authority()
    issued = authority.issue(*CERTIFIED_NAMES)
    mount(folder / "tls", {"tls.crt": issued.certificate, "tls.key": issued.key, "ca.crt": authority.pem})
    mount(folder / "tokens", {"tokens": token_line("first")})
    (command,) = {tuple(probe["exec"]["command"]) for probe in cluster.probes}
    with Process(folder, "--host", "127.0.0.1", **variables) as process:
        pod = Pod(process, folder, list(command), variables, variables["BERTSCOPE_SERVER_NAME"])
        with pod.client("first") as client:
            client.wait_until_serving(START_SECONDS)
        yield pod


def test_its_probes_pass_only_with_what_they_are_given(pod: Pod) -> None:
    done = pod.probe()
    assert done.returncode == 0, done.stderr
    assert pod.probe("BERTSCOPE_CA").returncode != 0
    assert pod.probe("BERTSCOPE_CERTIFICATE", "BERTSCOPE_KEY").returncode != 0


def test_kubernetes_own_probes_ask_for_a_service_that_the_server_knows(clusters: dict[str, Cluster], pod: Pod) -> None:
    asked = {probe["grpc"].get("service", "") for one in clusters.values() for probe in one.probes if "grpc" in probe}
    with pod.client("nobody's") as client:
        health = client.health()
    assert health.serving
    assert asked and asked <= {"", *health.services}
