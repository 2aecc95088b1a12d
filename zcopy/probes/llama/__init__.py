"""The handoff with a real decoder at its end: llama.cpp goes on decoding from what it was handed."""
