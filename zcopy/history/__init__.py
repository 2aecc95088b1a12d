"""The history: one SQLite file that keeps every run with all its samples (docs/history.md)."""
