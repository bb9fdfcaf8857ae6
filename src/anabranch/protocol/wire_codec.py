"""Hand-written encodings of the five commands that carry the data."""
