"""What is measured of one cluster: loads, failovers, starts. The same for every system."""

import time
from dataclasses import dataclass
from typing import NamedTuple

from clusters import Answer, ClientFailedError, Cluster

WARM_UP = 500
BACK_IN_SECONDS = {"quorate": 2.0, "etcd": 2.0, "zookeeper": 4.0, "pysyncobj": 6.0}
"""How long a restarted or resumed node gets to be a follower again. PySyncObj reconnects every 5 s."""


class Load(NamedTuple):
    in_flight: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    cpu_us: float
    """Per operation, all nodes together."""
    client_cpu_us: float


def warm_up(cluster: Cluster) -> None:
    cluster.leader()
    cluster.client.ask("write", count=WARM_UP, in_flight=10, size=100)


def load(cluster: Cluster, load: Load, *, seconds: float) -> LoadResult:
    result = _measured(cluster, "write", load, seconds)
    assert result is not None
    return result


def reads(cluster: Cluster, load: Load, *, seconds: float) -> LoadResult | None:
    """Linearizable ones; None for a system that has none."""
    return _measured(cluster, "read", load, seconds)


def _measured(cluster: Cluster, do: str, load: Load, seconds: float) -> LoadResult | None:
    client = cluster.client
    nodes, own = cluster.cpu_seconds(), client.cpu_seconds()
    answer: Answer = client.ask(
        do, in_flight=load.in_flight, size=load.size, seconds=seconds, timeout=seconds + 60
    )
    nodes, own = cluster.cpu_seconds() - nodes, client.cpu_seconds() - own
    if "unsupported" in answer:
        return None
    return LoadResult(
        per_second=answer["per_second"],
        p50_ms=answer["p50_ms"],
        p99_ms=answer["p99_ms"],
        p999_ms=answer["p999_ms"],
        cpu_us=nodes / answer["operations"] * 1e6,
        client_cpu_us=own / answer["operations"] * 1e6,
    )


def start_to_first_commit(cluster: Cluster) -> float:
    """Seconds from empty folders, the nodes' imports included; the client is there before."""
    cluster.client.ask("ready")
    started = time.perf_counter()
    cluster.start()
    cluster.commit()
    return time.perf_counter() - started


def kill_to_next_commit(cluster: Cluster) -> float:
    """Seconds from kill -9 of the leader, whose sockets close; the client tries all nodes at once."""
    leader = _steady_leader(cluster)
    started = time.perf_counter()
    cluster.kill(leader)
    cluster.commit()
    taken = time.perf_counter() - started
    cluster.start(leader)
    time.sleep(BACK_IN_SECONDS[cluster.name])
    return taken


def commits_missed_by_stop(cluster: Cluster) -> float:
    """The longest that nobody could commit, in seconds, while the leader was asked to stop (SIGTERM)."""
    leader = _steady_leader(cluster)
    cluster.commit()
    longest, last = 0.0, time.perf_counter()
    cluster.terminate(leader)
    by = leader
    while by == leader:
        by = cluster.commit()
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    cluster.wait(leader)
    cluster.start(leader)
    time.sleep(BACK_IN_SECONDS[cluster.name])
    return longest


def pause_to_next_commit(cluster: Cluster) -> float | None:
    """Seconds from SIGSTOP of the leader, whose sockets stay open and silent; None if nothing was committed
    for a minute. The last that is measured of a cluster: the client may still be trying."""
    leader = _steady_leader(cluster)
    started = time.perf_counter()
    cluster.pause(leader)
    try:
        cluster.commit()
    except ClientFailedError:
        return None
    finally:
        cluster.resume(leader)
    return time.perf_counter() - started


def _steady_leader(cluster: Cluster) -> int:
    cluster.commit()
    time.sleep(0.5)
    return cluster.leader()
