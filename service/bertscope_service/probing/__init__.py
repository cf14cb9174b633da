"""Probes: classifiers trained on the hidden states of marked words or spans."""
