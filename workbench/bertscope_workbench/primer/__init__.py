"""Asks which claims of BERTology hold for a hosted model: declared claims, measured, each with its control and a verdict."""
