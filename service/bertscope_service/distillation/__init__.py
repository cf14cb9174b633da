"""Trains a smaller model to answer as a larger one does."""
