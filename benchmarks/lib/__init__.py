"""Parts that scripts share: options, the report, servers, callers, texts, measuring."""
