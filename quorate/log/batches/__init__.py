"""Kafka's record batches (v2): headers, records, control records."""
