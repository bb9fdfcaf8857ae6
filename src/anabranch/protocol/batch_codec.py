"""Messages in and out of a batch."""
