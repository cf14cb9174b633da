"""Runs a configuration of Ray Serve on a cluster of one node, until standard input ends: `driver.py CONFIGURATION CPUS`."""

import os
import signal
import sys
import threading

from ray.cluster_utils import Cluster
from ray.serve.scripts import cli

from tools.deploy.programs import free_port

OBJECT_STORE_BYTES = 256 * 1024 * 1024
AGENTS = ("dashboard_agent_listen_port", "metrics_agent_port", "metrics_export_port", "runtime_env_agent_port")
"""Ports that Ray's agents would choose themselves. A node waits only 15 s to be told which, and then ends itself: too short on
a busy machine. It does not wait for given ports."""


def main() -> None:
    """Does the same as `ray start --head` and `serve run CONFIGURATION`, without the dashboard."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the parent process ignores it
    threading.Thread(target=_end_with_input, daemon=True).start()
    ports = {name: free_port() for name in AGENTS}
    settings = {"num_cpus": int(sys.argv[2]), "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**settings, **ports})
    cli(["run", "--address", cluster.address, sys.argv[1]])


def _end_with_input() -> None:
    """Waits until the input is closed, or the process that started this one is killed, and then stops everything."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
