"""Kafka's primitive encodings: numbers, varints, strings, arrays and tagged fields."""
