"""The rooms of the source: what each is, and what it may import. `tests/test_architecture.py` holds it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    package: str
    """Below `quorate`; of two that fit a module the more specific one counts."""
    purpose: str
    imports: tuple[str, ...]
    """Packages besides itself. "": all of them."""


ROOMS = (
    Room(
        package="raft.core",
        purpose="the Raft protocol as a function: an event in, effects out. No I/O, no clock, no randomness. "
        "One module per role",
        imports=(),
    ),
    Room(
        package="raft",
        purpose="the trio driver round the core, peers and server, and the public `Quorum`",
        imports=("quorum_state", "log", "runtime"),
    ),
    Room(
        package="quorum_state",
        purpose="the durable identity (`meta.properties`) and vote (`quorum-state`)",
        imports=("runtime", "raft.core.types"),
    ),
    Room(
        package="log",
        purpose="a segmented, crash-safe log of Kafka v2 batches, for metadata and partitions alike",
        imports=("runtime", "raft.core.types"),
    ),
    Room(
        package="broker.wire",
        purpose="Kafka's protocol: frames, versions, codecs, server and client",
        imports=("runtime",),
    ),
    Room(
        package="broker.controller",
        purpose="metadata records, the image, and pure operations on it; the active controller",
        imports=("raft", "runtime"),
    ),
    Room(
        package="broker.replication",
        purpose="replicas: leader and follower state, ISR, high watermark, fetchers, delayed operations",
        imports=("log", "broker.wire", "broker.controller", "raft.core.types", "runtime"),
    ),
    Room(
        package="broker.groups",
        purpose="classic consumer groups on `__consumer_offsets`",
        imports=("broker.replication", "broker.wire", "log", "raft.timers", "raft.core.types", "runtime"),
    ),
    Room(
        package="broker.apis",
        purpose="one module per Kafka API: requests to the rooms above and back",
        imports=("broker", "raft", "log", "runtime"),
    ),
    Room(
        package="broker",
        purpose="a node put together: configuration, life cycle, server",
        imports=("raft", "log", "quorum_state", "metrics", "runtime"),
    ),
    Room(
        package="metrics",
        purpose="every metric, declared in one place, and `/metrics`",
        imports=("runtime", "raft.core", "raft.telemetry"),
    ),
    Room(
        package="spark_source",
        purpose="the PySpark data source over the metadata log",
        imports=("log", "broker.controller", "broker.wire", "raft.core.types", "runtime"),
    ),
    Room(
        package="runtime",
        purpose="the seams: `Disk`, `Network`, clocks, entropy; the real ones in `quorate/runtime/real/`",
        imports=(),
    ),
    Room(
        package="simulation",
        purpose="their simulated twins, clusters under faults, checkers; shipped, because users test their "
        "own services with it",
        imports=("",),
    ),
    Room(package="cli", purpose="the `quorate` command", imports=("",)),
)
