"""Asks published data as papers do, and sets the figures beside those of the papers."""
