"""kafka-dump-log on every kind of file in a node's folder that carries Kafka's name, and kafka-storage."""

from collections.abc import Sequence
from pathlib import Path

from tools import Tools

NO_MISMATCH = r"!timestamp mismatch|out of order|not found in the log|Mismatches in|Exception"
PARTITION = "t-set-0"
TEXT_FILES = {
    "partition.metadata": r"\Aversion: 0\ntopic_id: [\w-]{22}\n\Z",
    "leader-epoch-checkpoint": r"\A0\n(\d+)\n(\d+ \d+\n)+\Z",
    "replication-offset-checkpoint": r"\A0\n\d+\n(\S+ \d+ \d+\n)*\Z",
    "recovery-point-offset-checkpoint": r"\A0\n\d+\n(\S+ \d+ \d+\n)*\Z",
    "log-start-offset-checkpoint": r"\A0\n\d+\n(\S+ \d+ \d+\n)*\Z",
    "meta.properties": r"(?s)(?=.*^version=1$)(?=.*^cluster\.id=)(?=.*^node\.id=1$)(?=.*^directory\.id=)",
    "quorum-state": r'(?s)\A\{.*"leaderEpoch".*"data_version":\s*[01]',
}
"""The form that Kafka gives the files that none of its tools reads."""


def files(tools: Tools) -> None:
    """Read the files of node 1, which has been stopped in order."""
    tools.area = "files"
    run, stage = tools.run, tools.stage
    folders = stage.directories(1)
    logs = _all(folders, f"{PARTITION}/*.log")
    dump(
        "kafka-dump-log, segments", tools, logs, "--deep-iteration", shows={"records": r"(?m)^\| offset: \d+"}
    )
    payloads = ("--print-data-log", "--deep-iteration")
    dump("kafka-dump-log --print-data-log", tools, logs, *payloads, shows={"payloads": r"payload: \S+"})
    for kind in ("index", "timeindex"):
        indexes = _all(folders, f"{PARTITION}/*.{kind}")
        dump(f"kafka-dump-log, {kind}", tools, indexes, shows={"entries": r"offset: \d+|is empty|Dumping"})
        dump(
            f"kafka-dump-log --index-sanity-check, {kind}",
            tools,
            indexes,
            "--index-sanity-check",
            shows={"it passes": r"passed sanity check"},
        )
        dump(
            f"kafka-dump-log --verify-index-only, {kind}",
            tools,
            indexes,
            "--verify-index-only",
            shows={"no mismatch": NO_MISMATCH},
        )
    committed = _all(folders, "__consumer_offsets-*/*.log")
    dump(
        "kafka-dump-log --offsets-decoder",
        tools,
        committed,
        "--offsets-decoder",
        "--deep-iteration",
        shows={
            "groups' metadata": r'group_metadata|"type":"2"',
            "committed offsets": r'offset_commit|"type":"1"',
        },
    )
    metadata = _all(folders, "__cluster_metadata-0/*.log")
    dump("kafka-dump-log, metadata log", tools, metadata, shows={"batches": r"baseOffset: \d+"})
    checkpoints = _all(folders, "__cluster_metadata-0/*.checkpoint")
    dump("kafka-dump-log, metadata snapshots", tools, checkpoints, shows={"batches": r"baseOffset: \d+"})
    tools.refused(
        "kafka-dump-log --cluster-metadata-decoder",
        *("--files", ",".join(map(str, metadata)), "--cluster-metadata-decoder", "--skip-record-metadata"),
        reason="metadata records are CBOR: `quorate log dump`",
        says=r"(?s)Exception|unknown frame version|Could not",
        server=None,
    )
    if checkpoints:
        tools.refused(
            "kafka-metadata-shell --snapshot",
            *("--snapshot", str(checkpoints[-1]), "ls"),
            reason="metadata records are CBOR: `quorate metadata shell`",
            says=r"SnapshotFileReader",
            server=None,
            seconds=4,
            endless=True,
        )
    run(
        "kafka-storage info",
        *("info", "--config", str(stage.cluster.node(1).config_file)),
        server=None,
        shows={
            "both directories": r"(?s)Found log director(y|ies):.*data\b.*data-2",
            "cluster and node": rf"(?s)cluster\.id={stage.cluster_id}.*node\.id=1",
        },
    )
    for name, pattern in TEXT_FILES.items():
        found = [
            file
            for folder in folders
            for file in (folder / name, *folder.glob(f"*/{name}"))
            if file.is_file()
        ]
        tools.look(f"{name}, as text", found, pattern)


def dump(call: str, tools: Tools, files: Sequence[Path], *options: str, shows: dict[str, str]) -> None:
    """Run kafka-dump-log on files. Without files it fails."""
    tools.run(
        call,
        *("--files", ",".join(map(str, files)), *options),
        server=None,
        shows={**shows, "no mismatch": NO_MISMATCH},
    )


def _all(folders: Sequence[Path], pattern: str) -> list[Path]:
    return sorted(file for folder in folders for file in folder.glob(pattern))
