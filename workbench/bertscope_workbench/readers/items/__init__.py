"""Asks about any number of items and writes a row for each, so that nothing is lost when the way there is cut short."""
