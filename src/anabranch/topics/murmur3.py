"""MurmurHash3 x86 32-bit with seed 0: the hash that routes every key."""
