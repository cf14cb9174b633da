"""Connects both clients to a server: targets, channels, deadlines, retries, splitting of many texts, health, logs."""
