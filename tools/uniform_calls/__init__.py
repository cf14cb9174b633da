"""Generates calls of usual shapes, and the requests they send, from the contract and short declarations."""
