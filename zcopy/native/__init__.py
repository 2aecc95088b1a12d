"""The only door to native code: the cffi module and the thin owners of what it hands out."""
