"""Makes a release: builds it, lists its contents, and tries it in empty environments."""
