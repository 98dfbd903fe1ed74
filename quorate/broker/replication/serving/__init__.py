"""The answers of a leader's replicas to Produce, Fetch, ListOffsets and DeleteRecords."""
