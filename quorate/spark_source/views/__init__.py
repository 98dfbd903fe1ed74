"""The typed views: tables of topics, partitions and brokers."""
