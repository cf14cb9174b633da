"""Checks a checkpoint's files against each other before a model is built from them."""
