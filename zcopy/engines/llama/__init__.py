"""llama.cpp's server: started from the xllamacpp wheel, or running somewhere already."""
