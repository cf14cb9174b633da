"""Authenticates and authorizes callers: TLS, tokens, roles."""
