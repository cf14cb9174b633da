"""Scores of whole texts by a model that predicts one piece at a time."""
