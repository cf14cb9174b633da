"""Published compressed models: what their papers say, and how each is built to be measured here."""
