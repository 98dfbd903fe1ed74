"""State changes over their whole life: the requests from the metadata log, the rest from each broker."""
