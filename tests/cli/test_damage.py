"""A byte flips in an old segment of a running broker: it is found, and one command mends the replica."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Quorate
from tests.kit.waiting import wait_until

RECORDS = 400


def segments(cluster: LocalCluster, broker: int, topic: str) -> list[Path]:
    return sorted((cluster.folder / str(broker) / "data" / f"{topic}-0").glob("*.log"))


@pytest.mark.slow
@pytest.mark.system
def test_a_flipped_byte_of_a_follower_and_of_a_leader_is_found_and_mended(
    quorate: Quorate, make_cluster: Callable[..., LocalCluster]
) -> None:
    cluster = make_cluster(3, quorate_log_scrub_interval_ms="1000")
    ask = quorate.at(cluster)
    placed = ("--partitions", 1, "--replication-factor", 3, "--config", "segment.bytes=4096")
    ask.output("topics", "create", "-t", "rotten", *placed)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("rotten", b"%d" % number * 10, partition=0)
        producer.flush(30)

    def bytes_of(broker: int) -> bytes:
        return b"".join(each.read_bytes() for each in segments(cluster, broker, "rotten"))

    wait_until(lambda: bytes_of(1) == bytes_of(2) == bytes_of(3), "the replicas are the same", seconds=60)
    whole = bytes_of(1)

    def is_whole(broker: int) -> bool:
        return bytes_of(broker) == whole

    def damaged() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ask.json("log-dirs", "damaged")["damaged"]
        return found

    def partition() -> dict[str, Any]:
        found: dict[str, Any] = ask.json("topics", "describe", "-t", "rotten")[0]["partitions"][0]
        return found

    leader = partition()["leader"]
    follower = next(each for each in (1, 2, 3) if each != leader)
    for broker in (follower, leader):
        old = segments(cluster, broker, "rotten")[0]
        content = bytearray(old.read_bytes())
        content[200] ^= 4
        with old.open("r+b") as file:
            file.seek(200)
            file.write(content[200:201])
        wait_until(damaged, "the damage is found", seconds=60)
        (found,) = damaged()
        assert (found["broker"], found["topic"], found["partition"]) == (broker, "rotten", 0)
        assert found["segment"].endswith(old.name)
        refetch = ("log-dirs", "refetch", "--replica", f"rotten:0:{broker}")
        health = ask("cluster", "health").stdout
        assert f"serious: rotten-0 on broker {broker} is damaged\n" in health
        assert f"`quorate {' '.join(refetch)} -b {cluster.bootstrap}`" in health
        assert "is fetched anew" in ask.output(*refetch)
        wait_until(partial(is_whole, broker), "it is whole again", seconds=60)
        wait_until(lambda: not damaged(), "the damage is told no more", seconds=60)
        wait_until(lambda: sorted(partition()["isr"]) == [1, 2, 3], "it is in sync again", seconds=60)
    aside = ask.json("log-dirs", "damaged")["setAside"]
    assert sorted(each["broker"] for each in aside) == sorted((follower, leader))
    assert all(Path(each["path"]).is_dir() for each in aside)
