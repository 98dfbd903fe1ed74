"""Records to and from standard input and output, by a stock client: librdkafka's for Python."""
