"""A byte flips in an old segment of a running broker: it is found, and one command mends the replica."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import Result

from quorate.cli.node.local_cluster import LocalCluster

Quorate = Callable[..., Result]
RECORDS = 400


def damage(quorate: Quorate, *server: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(
        quorate("log-dirs", "damaged", "--json", *server).output
    )
    return found


def segments(cluster: LocalCluster, broker: int, topic: str) -> list[Path]:
    return sorted((cluster.folder / str(broker) / "data" / f"{topic}-0").glob("*.log"))


def eventually(what: str, condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@pytest.mark.system
def test_a_flipped_byte_of_a_follower_and_of_a_leader_is_found_and_mended(
    quorate: Quorate, make_cluster: Callable[..., LocalCluster]
) -> None:
    cluster = make_cluster(3, quorate_log_scrub_interval_ms="1000")
    server = ("-b", cluster.bootstrap)
    made = quorate(
        "topics", "create", "-t", "rotten", "--partitions", 1, "--replication-factor", 3, "--config",
        "segment.bytes=4096", *server,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("rotten", b"%d" % number * 10, partition=0)
        producer.flush(30)

    def bytes_of(broker: int) -> bytes:
        return b"".join(each.read_bytes() for each in segments(cluster, broker, "rotten"))

    eventually("the replicas are not the same", lambda: bytes_of(1) == bytes_of(2) == bytes_of(3))
    whole = bytes_of(1)

    def is_whole(broker: int) -> bool:
        return bytes_of(broker) == whole

    described = json.loads(quorate("topics", "describe", "-t", "rotten", "--json", *server).output)
    leader = described[0]["partitions"][0]["leader"]
    follower = next(each for each in (1, 2, 3) if each != leader)
    for broker in (follower, leader):
        old = segments(cluster, broker, "rotten")[0]
        content = bytearray(old.read_bytes())
        content[200] ^= 4
        with old.open("r+b") as file:
            file.seek(200)
            file.write(content[200:201])
        eventually("the damage is not found", lambda: bool(damage(quorate, *server)["damaged"]))
        (found,) = damage(quorate, *server)["damaged"]
        assert (found["broker"], found["topic"], found["partition"]) == (broker, "rotten", 0)
        assert found["segment"].endswith(old.name)
        done = quorate("log-dirs", "refetch", "--replica", f"rotten:0:{broker}", *server)
        assert done.exit_code == 0, done.output
        assert "is fetched anew" in done.output
        eventually("it is not whole again", partial(is_whole, broker))
        eventually("the damage is still told", lambda: not damage(quorate, *server)["damaged"])
        eventually(
            "it is not in sync again",
            lambda: (
                sorted(
                    json.loads(quorate("topics", "describe", "-t", "rotten", "--json", *server).output)[0][
                        "partitions"
                    ][0]["isr"]
                )
                == [1, 2, 3]
            ),
        )
    aside = damage(quorate, *server)["setAside"]
    assert sorted(each["broker"] for each in aside) == sorted((follower, leader))
    assert all(Path(each["path"]).is_dir() for each in aside)
