"""Redoes papers on hosted models: claims with thresholds, and reproductions of published figures, by one engine."""
