"""The price of a protected cluster: TLS between nodes, SASL_SSL for clients, and 10,000 ACLs.

Of each system a cluster open and one protected run at once and take turns, with the same client.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import trio
import turns
from broker_bench import MEGABYTE, consume, produce
from brokers import QUIET, cpu, planned, serving
from clusters import Quorate
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka_nodes import CLUSTER_ID, KafkaNodes, client_settings
from node_requests import CLIENT_NODE
from report import Grid, Report, number
from turns import Load

from quorate.certs import CertificateFolder
from quorate.cli.console.command_config import network_by
from quorate.cli.node.local_cluster import LocalCluster
from quorate.cli.node.secured_cluster import ClusterSecrets
from quorate.runtime.network import Address
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import NodeId

SYSTEMS: Final = ("quorate", "kafka")
WAYS: Final = ("open", "protected", "protected, 10,000 ACLs")
ACLS: Final = 10_000
_ACLS_AT_ONCE: Final = 500
_PASSES: Final = 4
"""Over the records, to consume them: one takes a quarter of a second."""
_QUORUM_TURNS: Final = 6
"""Of the quorums in a round: what is short is measured often."""
LOGINS: Final = 1000
TOPIC: Final = "bench"
SMALL: Final = "bench-small"
"""The topic of the records by themselves: what is consumed has batches of one size only."""
LONE = "a record by itself, p50, ms"
AHEAD = "256 records in flight, /s"
PRODUCE = "produce 1 kB, acks=all, MB/s"
CONSUME = "consume 1 kB, hot, MB/s"
LOGGED_IN = f"{LOGINS:,} clients at once, until all have logged in, s"
COMMIT = "a commit of the quorum by itself, p50, ms"
COMMITS = "256 commits of the quorum in flight, /s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a round does: less for a look."""

    megabytes: int
    seconds: float
    acls: int = ACLS
    logins: int = LOGINS


def run(folder: Path, *, rounds: int, sizes: Sizes, systems: Sequence[str] = ()) -> Report:
    """Both systems one after the other; of each, the clusters of all ways run at once and take turns."""
    chosen = [each for each in SYSTEMS if each == "quorate" or not systems or each in systems]
    found = {
        (system, way): of_way
        for system in chosen
        for way, of_way in _brokers(folder / system, system, rounds, sizes).items()
    }
    commits = _quorums(folder / "quorums", rounds, sizes)

    def of(case: tuple[str, str], name: str) -> float:
        return median(each[name] for each in found[case])

    names = list(found["quorate", WAYS[0]][0])
    grids = [
        Grid(
            title=system,
            columns=("by", *WAYS, "protected / open", "with ACLs / protected"),
            rows=[
                (
                    name,
                    *(number(of((system, way), name)) for way in WAYS),
                    number(of((system, WAYS[1]), name) / of((system, WAYS[0]), name)),
                    number(of((system, WAYS[2]), name) / of((system, WAYS[1]), name)),
                )
                for name in names
            ],
        )
        for system in chosen
    ]
    if len(chosen) > 1:
        grids.append(
            Grid(
                title="quorate / kafka",
                columns=("by", *WAYS),
                rows=[
                    (name, *(number(of(("quorate", way), name) / of(("kafka", way), name)) for way in WAYS))
                    for name in names
                ],
            )
        )
    plain, encrypted = (
        {name: median(each[name] for each in commits[is_secured]) for name in commits[True][0]}
        for is_secured in (False, True)
    )
    grids.append(
        Grid(
            title="an embedded quorum of three",
            columns=("by", "open", "TLS", "TLS / open"),
            rows=[
                (name, number(plain[name]), number(encrypted[name]), number(encrypted[name] / plain[name]))
                for name in plain
            ],
        )
    )
    logged_in = [each[LOGGED_IN] for each in found["quorate", WAYS[1]]]
    return Report(
        title="The price of protection",
        systems=chosen,
        grids=grids,
        notes=[f"{LOGGED_IN}: {number(median(logged_in))} (no election meanwhile)"],
        rounds=[
            {"system": system, "way": way, **each}
            for (system, way), all_of in found.items()
            for each in all_of
        ]
        + [
            {"system": "quorum", "way": "TLS" if key else "open", **each}
            for key, all_of in commits.items()
            for each in all_of
        ],
    )


@dataclass(frozen=True, slots=True)
class _Served:
    """A running cluster, and its secrets if it is protected."""

    cluster: KafkaNodes | LocalCluster
    secrets: ClusterSecrets | None


def _brokers(folder: Path, system: str, rounds: int, sizes: Sizes) -> dict[str, list[dict[str, float]]]:
    """Return what each round found of each way."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with ExitStack() as stack:
        served = {
            way: stack.enter_context(_served(folder / str(number), system, way, rounds, sizes))
            for number, way in enumerate(WAYS)
        }
        for turn in range(rounds):
            for way in WAYS if turn % 2 == 0 else WAYS[::-1]:
                found[way].append(_one(served[way], f"{TOPIC}-{turn}", sizes))
    return found


@contextmanager
def _served(folder: Path, system: str, way: str, rounds: int, sizes: Sizes) -> Iterator[_Served]:
    """A cluster that is warm, with its topics and ACLs."""
    secured = way != WAYS[0]
    if system == "kafka":
        secrets = _secrets(folder) if secured else None
        cluster: KafkaNodes | LocalCluster = KafkaNodes(folder, secrets=secrets)
    else:
        cluster = planned(folder, secure=secured)
        secrets = cluster.secrets if secured else None
    with serving(cluster):
        security = client_settings(secrets)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET, **security})
        topics = (SMALL, "warm", *(f"{TOPIC}-{turn}" for turn in range(rounds)))
        admin.create_topics([NewTopic(each, 3, 3) for each in topics])
        time.sleep(2)
        if way == WAYS[2]:
            _add_acls(admin, sizes.acls)
        count = sizes.megabytes * MEGABYTE // 1000
        produce(cluster.bootstrap, "warm", count, security=security)
        consume(cluster.bootstrap, "warm", count, security=security)
        yield _Served(cluster, secrets)


def _one(served: _Served, topic: str, sizes: Sizes) -> dict[str, float]:
    cluster, security = served.cluster, client_settings(served.secrets)
    count = sizes.megabytes * MEGABYTE // 1000
    found = _records(cluster.bootstrap, security, sizes.seconds)
    before = cpu(cluster)
    found[PRODUCE] = count / 1000 / produce(cluster.bootstrap, topic, count, security=security)
    found["CPU of the brokers to produce, s/GB"] = (cpu(cluster) - before) / (count / 1e6)
    consume(cluster.bootstrap, topic, count, security=security)
    before = cpu(cluster)
    seconds = sum(consume(cluster.bootstrap, topic, count, security=security) for _ in range(_PASSES))
    found[CONSUME] = _PASSES * count / 1000 / seconds
    found["CPU of the brokers to consume, s/GB"] = (cpu(cluster) - before) / (_PASSES * count / 1e6)
    if isinstance(cluster, LocalCluster) and served.secrets is not None:
        found[LOGGED_IN] = _crowd(cluster, served.secrets, sizes.logins)
    return found


def _secrets(folder: Path) -> ClusterSecrets:
    secrets = ClusterSecrets.of(folder)
    folder.mkdir(parents=True, exist_ok=True)
    secrets.create(CLUSTER_ID, [1, 2, 3], "127.0.0.1", real_runtime(sync=SyncStrategy.INLINE).entropy)
    return secrets


def _add_acls(admin: AdminClient, count: int) -> None:
    """Make ACLs of other users and topics, a tenth of which begin as the measured one does."""
    bindings = [
        AclBinding(
            ResourceType.TOPIC, f"{TOPIC[: each % 10]}-{each}", ResourcePatternType.PREFIXED
            if each % 10 == 0 else ResourcePatternType.LITERAL,
            f"User:u{each % 100}", "*", AclOperation.READ, AclPermissionType.ALLOW,
        )
        for each in range(count)
    ]  # fmt: skip
    for first in range(0, count, _ACLS_AT_ONCE):
        for future in admin.create_acls(bindings[first : first + _ACLS_AT_ONCE]).values():
            future.result(timeout=60)


def _records(bootstrap: str, security: Mapping[str, str], seconds: float) -> dict[str, float]:
    """One record at a time, and then 256 in flight."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "batch.num.messages": 1, **QUIET,
         "max.in.flight.requests.per.connection": 256, **security}
    )  # fmt: skip
    producer.list_topics(SMALL, timeout=30)
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        producer.produce(SMALL, bytes(100), partition=0)
        assert producer.flush(30) == 0
        latencies.append(time.perf_counter() - began)
    done = 0

    def delivered(error: object, _: object) -> None:
        nonlocal done
        assert error is None, error
        done += 1

    ahead, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        while ahead - done < 256:
            producer.produce(SMALL, bytes(100), partition=ahead % 3, on_delivery=delivered)
            ahead += 1
        producer.poll(0.001)
    rate = done / (time.perf_counter() - began)
    assert producer.flush(30) == 0
    return {
        LONE: median(latencies) * 1000,
        "a record by itself, p99, ms": quantiles(latencies, n=100)[98] * 1000,
        AHEAD: rate,
    }


def _crowd(cluster: LocalCluster, secrets: ClusterSecrets, count: int) -> float:
    """Return the seconds until so many connections, opened at once, have logged in. Raises `RuntimeError` if
    there was an election meanwhile."""
    network = network_by(secrets.client_file)
    addresses = [Address.parse(each) for each in cluster.bootstrap.split(",")]
    term = cluster.describe_quorum()["leaderEpoch"]

    async def all_of_them() -> float:
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:

            async def connect(index: int) -> None:
                stream = await network.connect(addresses[index % len(addresses)])
                stack.callback(stream.close)

            began = time.perf_counter()
            with trio.fail_after(120):
                async with trio.open_nursery() as crowd:
                    for index in range(count):
                        crowd.start_soon(connect, index)
            took = time.perf_counter() - began
            nursery.cancel_scope.cancel()
            return took

    seconds = trio.run(all_of_them)
    if cluster.describe_quorum()["leaderEpoch"] != term:
        raise RuntimeError("there was an election while clients logged in")
    return seconds


def _quorums(folder: Path, rounds: int, sizes: Sizes) -> dict[bool, list[dict[str, float]]]:
    """Return what each round found without and with TLS. Both quorums run, and take turns."""
    certificates = folder / "certificates"
    made = CertificateFolder(certificates, now=datetime.now(UTC))
    made.create_authority("benchmark")
    for node in (1, 2, 3, CLIENT_NODE):
        made.create_node(NodeId(node))
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    with Quorate(folder / "open") as plain, Quorate(folder / "tls", certificates=certificates) as encrypted:
        for cluster in (plain, encrypted):
            cluster.start()
            turns.warm_up(cluster)
        for turn in range(_QUORUM_TURNS * rounds):
            for secured in (False, True) if turn % 2 == 0 else (True, False):
                cluster = encrypted if secured else plain
                lone = turns.load(cluster, Load(1, 100), seconds=2 * sizes.seconds / _QUORUM_TURNS)
                many = turns.load(cluster, Load(256, 100), seconds=sizes.seconds / _QUORUM_TURNS)
                found[secured].append(
                    {
                        COMMIT: lone.p50_ms,
                        COMMITS: many.per_second,
                        "CPU of a commit by itself, all nodes, us": lone.cpu_us,
                        "CPU of a commit, 256 in flight, all nodes, us": many.cpu_us,
                    }
                )
    return found
