"""The one version of client and service; both distributions read it from here, and what they say of themselves."""

__version__ = "0.1.0"
