"""The version of client and service; both distributions read and report it."""

__version__ = "0.1.0"
