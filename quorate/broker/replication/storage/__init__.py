"""The directories of `log.dirs`, and the logs in them (KIP-113, KIP-858)."""
