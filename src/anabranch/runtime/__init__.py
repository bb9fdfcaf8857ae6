"""Time, randomness, sockets, files: all that a simulation must replace."""
