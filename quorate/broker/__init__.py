"""A broker cluster on the quorum, in Kafka's protocol. Needs the extra `broker`.

Spark reads the metadata with this package's modules, and needs
no server for it.
"""

from quorate.runtime import need

need("quorate.broker", "kio", "cramjam", "javaproperties", extra="broker")
