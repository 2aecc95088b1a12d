"""Serving engines that a probe talks to: their processes, their requests, their model files."""
