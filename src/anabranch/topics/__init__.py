"""The vocabulary, pure: names, key ranges, segments, layouts, positions, routing."""
