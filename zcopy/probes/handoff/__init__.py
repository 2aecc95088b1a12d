"""The handoff probe: what it costs to hand a prefill's KV cache from a provider process to a decoder."""
