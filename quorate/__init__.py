"""A Raft metadata quorum in the style of KRaft, and a broker cluster that speaks Kafka's protocol.

The quorum to embed is `quorate.raft`; `__version__` is the installed version.
"""

__version__ = "0.2.0"
