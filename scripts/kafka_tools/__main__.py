"""Kafka's own tools and clients against a cluster of quorate: docs/compatibility.md.

    python scripts/kafka_tools                 # run all of them, say what fails
    python scripts/kafka_tools --write         # and write the results into that page

Needs a JDK and Kafka's jars, which Maven fetches (jars.py says where to). Ends with 0 if nothing failed, with
1 if something did, with 77 if it can't run here.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import aiokafka_calls
import confluent_calls
import kafka_python_calls
import page
import rows as kept
from cluster_tools import brokers, features, quorum, replicas
from config_tools import configs
from file_tools import files
from group_tools import groups
from jars import CantRunHereError, class_path
from refused_tools import refused
from rows import Result, Row
from stage import Stage, staged
from tool_host import ToolHost
from tools import Tools
from topic_tools import records, topics

SKIPPED = 77
AREAS: tuple[Callable[[Tools], None], ...] = (
    quorum,
    topics,
    records,
    groups,
    configs,
    features,
    replicas,
    refused,
    brokers,
)
PYTHON = {
    "confluent": confluent_calls.calls,
    "kafka-python": kafka_python_calls.calls,
    "aiokafka": aiokafka_calls.calls,
}
ADMIN = ("cluster", "groups", "topics", "configs", "records", "replicas", "quotas", "refused")


def everything(stage: Stage, host: ToolHost, only: str | None) -> list[Row]:
    tools = Tools(host, stage)
    rows: list[Row] = []
    for area in AREAS:
        if only is None or area.__name__ == only:
            area(tools)
        # Before broker 4 is unregistered, and after the quorum's voters were 1 and 2 again.
        if area is quorum:
            for calls in ADMIN:
                if only is None or only == f"admin-{calls}":
                    rows += host.admin(calls, stage.given())
            for name, calls_of in PYTHON.items():
                if only is None or only == name:
                    rows += calls_of(stage.given())
    if only is None or only == "files":
        stage.cluster.stop(1)
        files(tools)
    return [*rows, *tools.rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write the results into {page.PAGE.name}")
    parser.add_argument(
        "--only",
        help="one area, which may build on earlier ones: a function's name in AREAS, admin- and one of "
        "ADMIN, or one of PYTHON",
    )
    parser.add_argument("--json", type=Path, help="a file for the results, with details and times")
    arguments = parser.parse_args()
    try:
        classes = class_path()
    except CantRunHereError as missing:
        print(f"skipped: {missing}")
        return SKIPPED
    # So that the nodes and the JVM end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as stage:
        host = ToolHost(classes)
        try:
            rows = everything(stage, host, arguments.only)
        finally:
            host.close()
    for row in rows:
        if row.result is Result.FAIL:
            print(f"FAIL {row.group}, {row.area}: {row.call}: {row.detail} ({row.ms} ms)")
    counts = Counter(row.result.value for row in rows)
    said = ", ".join(f"{counts[each.value]} {each.value}" for each in Result)
    print(f"{said}, in {time.monotonic() - began:.0f} s")
    if arguments.json is not None:
        kept.write(rows, arguments.json)
    if arguments.write:
        page.write(rows)
    return 1 if counts["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
