"""Tests: unit, integration and end to end, and what they share in support/."""
