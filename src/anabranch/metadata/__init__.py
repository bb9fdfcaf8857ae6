"""Small records that decide: compare-and-set, watches, sessions, election."""
