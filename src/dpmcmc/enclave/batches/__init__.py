"""Secret batches of records."""
