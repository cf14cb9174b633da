"""Encoders that run in PyTorch, and the checkpoints that they read."""
