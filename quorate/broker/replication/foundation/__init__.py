"""The parts that every room of replication uses: configuration, errors, requests, counts, quotas, waiting
requests, the metadata and failures."""
