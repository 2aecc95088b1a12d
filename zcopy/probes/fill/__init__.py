"""How fast memory of a kind can be filled, by which method, and what its cache maintenance costs."""
