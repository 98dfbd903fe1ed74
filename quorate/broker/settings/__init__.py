"""Settings, one declaration each: the keys of nodes, topics and groups, and fields with their values."""
