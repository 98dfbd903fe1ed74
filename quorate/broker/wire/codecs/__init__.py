"""Codecs of Kafka's messages: written by hand on hot paths, kio's elsewhere."""
