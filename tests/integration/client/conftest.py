"""Fixtures; see tests/support/asked_servers.py."""

from tests.support.asked_servers import abort, command, endless, interruptible, no_terminal, run_at, server, wait_for

__all__ = ["abort", "command", "endless", "interruptible", "no_terminal", "run_at", "server", "wait_for"]
