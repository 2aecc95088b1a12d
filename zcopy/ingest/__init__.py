"""Engine logs as rows: what an engine says of its handoffs, saves and phases."""
