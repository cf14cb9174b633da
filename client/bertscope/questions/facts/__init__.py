"""Asks for facts: the facts and their templates, the answers, and their metrics."""
