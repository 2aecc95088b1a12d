"""The kinds of memory, one file each; `registry` lists them."""
