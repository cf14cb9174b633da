"""The one version of client and service; the service's pyproject.toml repeats it, which a test checks."""

__version__ = "0.1.0"
