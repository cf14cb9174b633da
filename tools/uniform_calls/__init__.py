"""Generates calls of two shapes, and the requests they send, from the contract and short declarations."""
