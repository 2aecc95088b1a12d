"""llama.cpp's sequence-state files: what is in one, whether it is whole, whether a server would take it."""
