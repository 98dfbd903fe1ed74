"""The checks of produced batches before the append, and the producers that they are checked by."""
