"""Work that takes many runs: sweeps, curves, rankings. They ask the engine, and know no protobuf."""
