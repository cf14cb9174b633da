"""Models of a server: read, warmed up, listed, replaced and unloaded."""
