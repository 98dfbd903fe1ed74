"""A broker cluster on the quorum, in Kafka's protocol."""
