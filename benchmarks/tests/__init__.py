"""Tests of the benchmarks themselves: what they compute, and that they notice a wrong answer."""
