"""Looks at one text: predictions, moved attention and maps from one run of a model."""
