"""A cluster for a test run in any language: `python -m quorate.testing`, `quorate cluster start --ephemeral`.

It ends with the program that started it, and leaves no process and no file. Each line of its standard input
is a command, `{"kill": [1]}` or `{"leader": {"topic": "orders"}}`: a method of `KafkaCluster` with its
arguments. Each line of its standard output is an answer, `{"result": 2}` or `{"error": "..."}`.
"""

import argparse
import inspect
import json
import os
import select
import signal
import stat
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final, NoReturn

from quorate.cli.node.client_login import ClientLogin
from quorate.testing.cluster_error import ClusterError
from quorate.testing.kafka_cluster import KafkaCluster
from quorate.testing.pool import ClusterPool

_COMMANDS: Final = (
    "active_controller",
    "add_user",
    "allow",
    "create_topic",
    "describe",
    "fill_disk",
    "heal",
    "isr",
    "kill",
    "leader",
    "log",
    "partition",
    "pause",
    "restart",
    "resume",
    "slow_disk",
    "wait_isr",
)
_ORPHAN_SECONDS: Final = 0.5
"""The time between two looks at whether the parent has ended."""
_READ_BYTES: Final = 64 * 1024


def main() -> int:
    """Run a cluster until standard input or the parent ends, or until a signal. Return the exit code."""
    parent = os.getppid()
    parser = argparse.ArgumentParser(prog="python -m quorate.testing", description="Run a cluster for tests.")
    parser.add_argument("--nodes", type=int, default=3, choices=range(1, 10), metavar="N", help="default: 3")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="for every node")
    parser.add_argument("--json", action="store_true", help="print the ready cluster as a line of JSON")
    parser.add_argument("--secure", action="store_true", help="TLS, passwords and ACLs")
    asked = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    pool = ClusterPool()
    try:
        config = {key: value for key, _, value in (each.partition("=") for each in asked.config)}
        cluster = pool.lend(asked.nodes, config=config, secure=asked.secure)
        _print(cluster.as_dict() if asked.json else f"bootstrap servers: {cluster.bootstrap_servers}")
        for line in _lines(parent):
            _print(_answer(cluster, line))
    except ClusterError as error:
        print(f"quorate: {error}", file=sys.stderr)
        return 1
    finally:
        pool.close()
    return 0


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def _print(answer: object) -> None:
    print(answer if isinstance(answer, str) else json.dumps(answer), flush=True)


def _lines(parent: int) -> Iterator[str]:
    """Return the lines of standard input until it or the parent ends.

    Programs that give no input leave a terminal or /dev/null there, whose end means nothing.
    """
    mode = os.fstat(0).st_mode
    inputs = [0] if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else []
    rest = b""
    while os.getppid() == parent:
        if select.select(inputs, [], [], _ORPHAN_SECONDS)[0]:
            received = os.read(0, _READ_BYTES)
            if not received:
                return
            *lines, rest = (rest + received).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines if line.strip())


def _answer(cluster: KafkaCluster, line: str) -> dict[str, object]:
    try:
        command: object = json.loads(line)
    except ValueError as error:
        return {"error": f"{line!r} is no JSON: {error}"}
    positional: Sequence[object] = ()
    named: dict[str, object] = {}
    match command:
        case {**only} if len(only) == 1:
            ((name, arguments),) = only.items()
        case _:
            return {"error": 'write one command, such as {"kill": [1]}'}
    match arguments:
        case list():
            positional = arguments
        case dict():
            named = arguments
        case _:
            return {"error": f"{name}: write its arguments as a list or as an object"}
    if name not in _COMMANDS:
        return {"error": f"there is no command {name}; the commands are {', '.join(_COMMANDS)}"}
    method = getattr(cluster, name)
    try:
        inspect.signature(method).bind(*positional, **named)
        result = method(*positional, **named)
    except (ClusterError, TypeError) as error:
        return {"error": f"{name}: {error}"}
    if isinstance(result, ClientLogin):
        return {"result": result.as_dict()}
    return {"result": sorted(result) if isinstance(result, set) else result}


if __name__ == "__main__":
    sys.exit(main())
