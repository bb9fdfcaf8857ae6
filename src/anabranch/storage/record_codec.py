"""Records of the journal and of ledger files."""
