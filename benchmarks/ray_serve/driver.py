"""`driver.py CONFIGURATION CPUS` runs a configuration of Ray Serve on a cluster of one node, until its standard input ends."""

import os
import signal
import sys
import threading

from ray.cluster_utils import Cluster
from ray.serve.scripts import cli

from benchmarks.peers.processes import free_port

OBJECT_STORE_BYTES = 256 * 1024 * 1024
AGENTS = ("dashboard_agent_listen_port", "metrics_agent_port", "metrics_export_port", "runtime_env_agent_port")
"""Ports that Ray's agents would choose themselves, but a node waits only 15 s to be told which, and then ends itself: not long
enough where other work has the cores. It does not wait for those that it was given."""


def main() -> None:
    """What `ray start --head` and `serve run CONFIGURATION` do, without the dashboard."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where whoever started this ignores it
    threading.Thread(target=_end_with_input, daemon=True).start()
    ports = {name: free_port() for name in AGENTS}
    settings = {"num_cpus": int(sys.argv[2]), "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**settings, **ports})
    cli(["run", "--address", cluster.address, sys.argv[1]])


def _end_with_input() -> None:
    """The input ends when it is closed, and when the process that started this one is killed; then take everything down."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
