"""Measures speed on a GPU, as shares of the device's limits: `make gpu`. Imports only packages of that interpreter."""
