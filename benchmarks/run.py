"""The benchmarks, one suite at a time:

    table      the whole table (`make bench`): quorate beside etcd and the disk, and the brokers
    compare    quorate, etcd, ZooKeeper and PySyncObj, and the machine's floor; plots latency against load
    growth     quorate's cost by voters, record size and log length
    memory     a node's memory with a long log (--records), of all systems
    records    small records one by one, from produce to consume, beside idle partitions, and their CPU
    snapshot   a snapshot of --state-mb of state while commits go on: how far throughput dips
    kafka      the brokers beside Apache Kafka's: throughput, small records, CPU; needs Java and Maven
    doors      commits, linearizable reads and empty calls from Python: through each front door, as a node and
               as a client, beside clients of etcd, ZooKeeper and PySyncObj
    hops       a call through each front door, for trio, asyncio and threads, beside anyio's portal
    groups     kill -9 of a group's coordinator until its 100 members read on, with 100,000 committed offsets
    idle       1,000 consumers that wait for records that do not come, and nobody: CPU of the nodes, beside
               idle partitions
    topics     topic after topic is filled and stays: throughput, CPU, and what the disk owes
    scale      the controller with 1,000,000 and 2,000,000 partitions: memory, replay, fencing, failover
    spark      a metadata log in Spark: each view beside Spark's own transport, Parquet and Kafka source
    partitions 10,000 idle partitions beside Apache Kafka's: CPU, memory, start, failover
    security   the brokers and a quorum open, protected, and with 10,000 ACLs, beside Apache Kafka's; needs
               Java and Maven, but for --systems quorate
    testing    clusters of quorate.testing: until they are ready, cold and warm, and cleaning after a test;
               beside Apache Kafka's brokers, with Java and Maven, but for --systems quorate
    access     a decision by ACLs: remembered by the connection, by the node, and made first
    page       ten viewers of a node's page beside a producer, and none, in turns: throughput, CPU
    profile    where a commit's time goes: CPU, wake-ups and, with --profile, calls of each node

Each prints its figures; all but `profile` also write benchmarks/results/<suite>.json and .md. Systems take
turns, in another order each round; medians are shown, because the machine may be noisy. On one with other
work, run as root with --nice: every node and client of every system then goes before it.
"""

import argparse
import os
import tempfile
from pathlib import Path

import access_bench
import compare
import door_bench
import group_bench
import growth
import hop_bench
import idle_bench
import page_bench
import priority
import profile_commits
import quick_table
import record_bench
import scale
import snapshot_bench
import testing_bench
import topics_bench
from report import WIDTH, Report
from rich.console import Console

SUITES = (
    "table", "compare", "growth", "memory", "records", "kafka", "snapshot", "doors", "hops", "groups", "idle",
    "topics", "scale", "spark", "partitions", "testing", "security", "access", "page",
    "profile",
)  # fmt: skip
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    options = _options()
    if options.nice:
        priority.go_first()
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", dir=options.folder) as name:
        report = _run(Path(name), options)
    if report is not None:
        report.show()
        report.write(options.json or RESULTS / f"{options.suite}.json")


def _run(folder: Path, options: argparse.Namespace) -> Report | None:
    quick: bool = options.quick
    match options.suite:
        case "table":
            return quick_table.run(
                folder,
                rounds=options.rounds or (1 if quick else 5),
                seconds=options.seconds or (2 if quick else 4),
                megabytes=20 if quick else 200,
            )
        case "compare":
            return compare.run(
                folder,
                rounds=options.rounds or (1 if quick else 5),
                seconds=options.seconds or (0.5 if quick else 2),
                systems=options.systems,
                svg=options.svg or RESULTS / "latency.svg",
            )
        case "growth":
            return growth.growth(
                folder,
                rounds=options.rounds or (1 if quick else 3),
                seconds=options.seconds or (0.5 if quick else 2),
                records=options.records or (30_000 if quick else 1_000_000),
            )
        case "memory":
            records = options.records or (10_000 if quick else 1_000_000)
            return growth.memory(folder, records=records, systems=options.systems)
        case "records":
            return record_bench.run(
                folder,
                idle=(0, 250) if quick else tuple(options.partitions or (0, 250, 5000, 10_000)),
                rounds=options.rounds or (1 if quick else 3),
                seconds=options.seconds or (2 if quick else 8),
            )
        case "kafka":
            # Its jars are fetched only for whoever asks.
            import beside_kafka

            return beside_kafka.run(
                folder,
                rounds=options.rounds or (1 if quick else 3),
                sizes=beside_kafka.Sizes(
                    megabytes=10 if quick else 100,
                    seconds=options.seconds or (2 if quick else 6),
                    idle=50 if quick else 250,
                    topics=3 if quick else 24,
                ),
            )
        case "security":
            import security_bench

            return security_bench.run(
                folder,
                rounds=options.rounds or (1 if quick else 3),
                sizes=security_bench.Sizes(
                    megabytes=10 if quick else 100,
                    seconds=options.seconds or (1 if quick else 4),
                    acls=500 if quick else security_bench.ACLS,
                    logins=50 if quick else security_bench.LOGINS,
                ),
                systems=options.systems,
            )
        case "snapshot":
            return snapshot_bench.run(folder, state_mb=options.state_mb or (20 if quick else 1000))
        case "doors":
            return door_bench.run(
                folder,
                rounds=options.rounds or (1 if quick else 3),
                seconds=options.seconds or (0.3 if quick else 1),
                systems=options.systems,
            )
        case "hops":
            return hop_bench.run(
                folder,
                rounds=options.rounds or (1 if quick else 5),
                seconds=options.seconds or (0.3 if quick else 2),
            )
        case "groups":
            return group_bench.run(
                folder,
                members=12 if quick else 100,
                offsets=1_000 if quick else 100_000,
                kills=options.rounds or (1 if quick else 5),
            )
        case "idle":
            return idle_bench.run(
                folder,
                consumers=100 if quick else 1_000,
                beside=tuple(options.partitions or ((0,) if quick else (0, 10_000))),
                rounds=options.rounds or (1 if quick else 3),
                seconds=options.seconds or (2 if quick else 10),
            )
        case "page":
            return page_bench.run(
                folder,
                megabytes=10 if quick else 100,
                rounds=options.rounds or (2 if quick else 5),
                seconds=options.seconds or (2 if quick else 10),
            )
        case "topics":
            return topics_bench.run(folder, topics=3 if quick else 24, megabytes=10 if quick else 100)
        case "access":
            return access_bench.run(
                folder, rounds=options.rounds or (1 if quick else 5), calls=20_000 if quick else 200_000
            )
        case "testing":
            return testing_bench.run(
                folder, rounds=options.rounds or (1 if quick else 5), systems=options.systems
            )
        case "scale":
            sizes = options.partitions or ([5_000, 20_000] if quick else [100, 100_000, 1_000_000, 2_000_000])
            return scale.run(folder, sizes=sizes, kills=options.rounds or (1 if quick else 3))
        case "spark":
            # PySpark is only for whoever asks.
            from spark import measure
            from spark.make_log import PARTITIONS, make_log

            logs: list[Path] = options.logs
            if not logs:
                records = options.records or (100_000 if quick else 1_000_000)
                logs = [folder / f"{records}-records"]
                (partitions,) = options.partitions or (PARTITIONS,)
                make_log(logs[0], records=records, partitions=partitions)
            plan = measure.Plan(
                masters=options.masters or ("local[2]",),
                views=options.views,
                rounds=options.rounds or (1 if quick else 3),
            )
            return measure.run(folder, logs=logs, plan=plan)
        case "partitions":
            import partition_bench

            return partition_bench.run(
                folder,
                partitions=100 if quick else 10_000,
                rounds=options.rounds or 1,
                seconds=options.seconds or (2 if quick else 20),
            )
        case _:
            profile_commits.run(
                folder,
                commits=options.commits,
                in_flight=options.in_flight,
                size=options.size,
                profile=options.profile,
                top=options.top,
                console=Console(width=WIDTH),
            )
            return None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", nargs="?", default="table", choices=SUITES)
    parser.add_argument("--quick", action="store_true", help="shorter, for a look")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="of each load")
    parser.add_argument("--nice", action="store_true", help="run everything at nice -20 (as root)")
    parser.add_argument(
        "--folder", default=os.environ.get("BENCH_DIR"), help="on the disk to measure; BENCH_DIR by default"
    )
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--systems", nargs="*", default=[], help="beside quorate; all by default")
    parser.add_argument("--svg", type=Path, help="compare: where the plot goes")
    parser.add_argument("--records", type=int, help="growth, memory: of the longest log; spark: of the log")
    parser.add_argument("--state-mb", type=int, help="snapshot: of the state")
    parser.add_argument(
        "--partitions",
        type=int,
        nargs="*",
        help="scale: sizes of the cluster, rising; records, idle: numbers of idle partitions; "
        "spark: the number that the log begins with",
    )
    spark = parser.add_argument_group("spark")
    spark.add_argument("--logs", type=Path, nargs="*", default=[], help="of spark.make_log; made by default")
    spark.add_argument("--masters", nargs="*", default=[], help="such as local[1] local[2] standalone")
    spark.add_argument("--views", nargs="*", default=[], help="of spark.cases; all by default")
    profile = parser.add_argument_group("profile")
    profile.add_argument("--commits", type=int, default=2000)
    profile.add_argument("--in-flight", type=int, default=1)
    profile.add_argument("--size", type=int, default=100, help="bytes of a record, at least 8")
    profile.add_argument("--profile", action="store_true", help="a second run under cProfile")
    profile.add_argument("--top", type=int, default=25, help="functions to show of each node")
    return parser.parse_args()


if __name__ == "__main__":
    main()
