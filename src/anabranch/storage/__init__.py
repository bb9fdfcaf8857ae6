"""Ledgers: entries that are acknowledged once they are on disk, and cursors over them."""
