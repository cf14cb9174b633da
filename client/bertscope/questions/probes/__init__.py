"""Probes: trained, applied, kept, and their code lengths."""
