"""The durable identity and vote of a node: `election_state` and `meta_properties`."""
