"""Words, and how much of a score is due to each."""
