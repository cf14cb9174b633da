"""Serves HTTP on this machine: bounds of connections that the page and the server of agents share."""
