"""Parts of the service by themselves, without a server."""
