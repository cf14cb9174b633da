"""Answers of the heads of fine-tuned models: labels, values and spans."""
