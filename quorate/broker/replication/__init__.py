"""Replicas of partitions: logs, ISR, high watermark, fetchers."""
