"""Parts that benchmarks share: servers, texts, measuring, flags."""
