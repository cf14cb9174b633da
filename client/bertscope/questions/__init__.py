"""The questions: each room has the calls of one, its request, its results and their table."""
