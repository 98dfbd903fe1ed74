"""A broker cluster on the quorum, in Kafka's protocol. Needs the extra `broker`."""

from quorate.runtime.extras import need

need("quorate.broker", "kio", "cramjam", extra="broker")
