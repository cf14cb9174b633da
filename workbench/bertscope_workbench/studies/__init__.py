"""Redoes papers on a hosted model: a study asks a server all questions of a paper, and is one page of figures and tables."""
