"""Generates what is made from protos/, and lints it."""
