"""A broker cluster of real nodes, each broker and controller, with two disks, on machines of their own."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from ledger import Sent
from machines import DISK, Host, Machines
from stock_clients import sent_of

from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.brokers import live_brokers
from quorate.broker.admin.quorum import describe_quorum
from quorate.broker.admin.topics import create_topic, describe_topics, topic_as_dict
from quorate.broker.wire.wire_errors import KafkaError
from quorate.cli.commands.batches import batches_of
from quorate.cli.console.cli_errors import ExitCode
from quorate.log.batches.batch import HEADER_BYTES, read_batches
from quorate.log.batches.records import records_of
from quorate.runtime.network import NetworkError
from quorate.runtime.real import RealNetwork

COMMAND = (sys.executable, "-m", "quorate.cli.main")
PORT, CONTROLLER_PORT = 9092, 19092
SECOND = "second"
DISK_SIZES = {DISK: "96m", SECOND: "96m"}
TOPIC = "records"
CLUSTER_ID = "nemesis-of-brokers"
OTHERS: Mapping[str, str] = {
    # Where there is much to do in minutes; what clients feel of a fault are the defaults.
    "offsets.topic.segment.bytes": "262144",
    "log.cleaner.backoff.ms": "2000",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "quorate.log.scrub.interval.ms": "10000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "metadata.log.max.record.bytes.between.snapshots": "65536",
    "metadata.log.segment.bytes": "8388608",
}
SEGMENT_BYTES = 32_768


@dataclass(slots=True)
class BrokerCluster(Machines):
    partitions: int = 6

    def __post_init__(self) -> None:
        self.plan_hosts(port=PORT, disks=DISK_SIZES)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{address.host}:{address.port}" for address in self.addresses.values())

    def properties(self, node: int) -> Path:
        return self.folder / f"{node}.properties"

    def command(self, node: int) -> list[str]:
        return [*COMMAND, "server", "start", str(self.properties(node))]

    def may_end(self, host: Host, code: int, last: str) -> bool:
        return host.full is not None and code == ExitCode.STORAGE

    async def format(self) -> None:
        voters = ",".join(f"{n}@{each.host}:{CONTROLLER_PORT}" for n, each in self.addresses.items())
        for node, host in self.hosts.items():
            at = host.address.host
            settings = {
                "process.roles": "broker,controller",
                "node.id": str(node),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{at}:{PORT},CONTROLLER://{at}:{CONTROLLER_PORT}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": ",".join(str(disk / "data") for disk in host.disks.values()),
                "min.insync.replicas": "2",
                "default.replication.factor": "3",
                **OTHERS,
            }
            self.properties(node).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            command = [*COMMAND, "storage", "format", "-t", CLUSTER_ID, "-c", str(self.properties(node))]
            await trio.run_process(command, capture_stdout=True)

    async def stop(self, node: int) -> None:
        """Stop the node in order, as an operator does."""
        host = self.hosts[node]
        process = host.process
        if process is not None:
            host.killed = True
            process.send_signal(signal.SIGTERM)
            with trio.move_on_after(60) as patience:
                await process.wait()
            if patience.cancelled_caught:
                self.failures.append(f"node {node} did not end within 60 s of SIGTERM")
                process.kill()
                await process.wait()
            host.process = None

    # What the cluster says

    async def create_topic(self) -> None:
        async with open_admin(RealNetwork(), list(self.addresses.values())) as admin:
            await create_topic(
                admin,
                TOPIC,
                partitions=self.partitions,
                replication_factor=len(self.hosts),
                configs=[("segment.bytes", str(SEGMENT_BYTES)), ("retention.ms", "-1")],
            )

    async def controller(self) -> int | None:
        """Ask a node that is up for the active controller."""
        with trio.move_on_after(5):
            try:
                async with open_admin(RealNetwork(), self._up()) as admin:
                    return int((await describe_quorum(admin)).leader)
            except (NetworkError, KafkaError):
                return None
        return None

    async def roles(self, partition: int) -> tuple[int, list[int]]:
        """Return the leader and the ISR of a partition. Raises `NetworkError`, `KafkaError`."""
        async with open_admin(RealNetwork(), self._up()) as admin:
            (topic,) = await describe_topics(admin, TOPIC)
        described: Any = topic_as_dict(topic)["partitions"]
        return int(described[partition]["leader"]), [int(each) for each in described[partition]["isr"]]

    def _up(self) -> list[Any]:
        return [host.address for host in self.hosts.values() if host.up]

    async def not_working(self) -> str | None:
        """Return the reason why the cluster does not work, as a node sees it. None: all brokers are unfenced,
        and all replicas of all topics are in sync."""
        for node, host in self.hosts.items():
            if host.process is None:
                return f"node {node} does not run"
            try:
                with trio.fail_after(8):
                    async with open_admin(RealNetwork(), [host.address]) as admin:
                        if (live := await live_brokers(admin)) != set(self.hosts):
                            return f"node {node} knows of brokers {sorted(live)} only"
                        for topic in await describe_topics(admin, None):
                            described: Any = topic_as_dict(topic)
                            for each in described["partitions"]:
                                if sorted(each["isr"]) != sorted(each["replicas"]) or each["leader"] < 0:
                                    return f"node {node} says {described['name']}: {each}"
            except (NetworkError, KafkaError, trio.TooSlowError) as error:
                return f"node {node}: {error or 'no answer within 8 s'}"
        return None

    # What an operator does

    async def operate(self, *arguments: str) -> tuple[int, str]:
        """Run a command of `quorate`. Return its exit code and its output."""
        done = await trio.run_process(
            [*COMMAND, *arguments, "-b", self.bootstrap],
            capture_stdout=True, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.decode()

    async def damaged(self) -> list[dict[str, Any]]:
        code, said = await self.operate("log-dirs", "damaged", "--json")
        return [] if code else json.loads(said)["damaged"]

    # What is on the disks

    def folders(self, node: int, partition: int) -> list[Path]:
        name = f"{TOPIC}-{partition}"
        return [
            folder for disk in self.hosts[node].disks.values() if (folder := disk / "data" / name).is_dir()
        ]

    def segments(self, node: int, partition: int) -> list[Path]:
        return sorted(file for folder in self.folders(node, partition) for file in folder.glob("*.log"))

    def damage(self, segment: Path, at: float) -> tuple[int, int]:
        """Flip one byte of a closed segment, in the records of the batch at that share of its batches. Return
        the position and the batch's base offset."""
        data = segment.read_bytes()
        batches = list(batches_of(memoryview(data)))
        header = batches[int(at * len(batches))].header
        position = header.position + HEADER_BYTES + (header.size - HEADER_BYTES) // 2
        with segment.open("r+b") as file:
            file.seek(position)
            file.write(bytes([data[position] ^ 0x10]))
        return position, int(header.base_offset)

    def bytes_of(self, node: int, partition: int) -> bytes:
        """Return all batches that the replica holds."""
        whole = b""
        for segment in self.segments(node, partition):
            data = segment.read_bytes()
            whole += data[: sum(batch.header.size for batch in batches_of(memoryview(data)))]
        return whole

    def log_of(self, data: bytes) -> list[Sent]:
        """Return the records of these batches, which begin with offset 0 and have no holes."""
        return [
            Sent(*sent_of(bytes(record.value or b"")))
            for batch in read_batches(data)
            for record in records_of(batch)
        ]

    async def replicas_agree(self, *, within_seconds: float) -> tuple[dict[int, list[Sent]], list[str]]:
        """Return each partition's log, and the differences between the files of its replicas."""
        logs: dict[int, list[Sent]] = {}
        wrong: list[str] = []
        deadline = time.monotonic() + within_seconds
        for partition in range(self.partitions):
            while True:
                copies = {node: self.bytes_of(node, partition) for node in self.hosts}
                if len(set(copies.values())) == 1 or time.monotonic() > deadline:
                    break
                await trio.sleep(0.5)
            if len(set(copies.values())) > 1:
                sizes = {node: len(data) for node, data in copies.items()}
                wrong.append(f"partition {partition}: replicas differ at last, with {sizes} bytes")
            logs[partition] = self.log_of(max(copies.values(), key=len))
        return logs, wrong
