"""Shows and writes results: tables, documents, files, progress."""
