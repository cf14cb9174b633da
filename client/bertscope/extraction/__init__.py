"""Tensors of texts that arrive in chunks: attention maps, hidden states."""
