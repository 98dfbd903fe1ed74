"""Real nodes under real faults: processes in network namespaces, and clients that check what they are told.

    python scripts/nemesis --seconds 180 --seed 7

Needs root, iproute2 and /dev/net/tun. Ends with 0 if all was well, with 77 if it can't run here.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import trio
from cluster import CLUSTER_ID, Cluster
from faults import Nemesis
from history import load, problems
from machines import HERE, CantRunHereError, missing

SKIPPED = 77
ROUND_SECONDS = 25.0
"""Of faults; then all is healed and has to work again."""
WORKING_WITHIN_SECONDS = 60.0
CLIENTS = 2
WORKERS = 4


class Run:
    def __init__(self, seconds: float, seed: int, nodes: int, folder: Path, *, quiet: bool) -> None:
        self._seconds = seconds
        self._seed = seed
        self._nodes = nodes
        self._folder = folder
        self._quiet = quiet
        self._began = time.monotonic()
        self.problems: list[str] = []
        self._clients: list[trio.Process] = []
        self._recoveries: list[float] = []

    def say(self, what: str) -> None:
        line = f"{time.monotonic() - self._began:7.2f} {what}"
        with (self._folder / "events.txt").open("a") as events:
            print(line, file=events)
        if not self._quiet:
            print(line, flush=True)

    async def main(self) -> None:
        cluster = None
        try:
            async with trio.open_nursery() as nursery:
                cluster = Cluster(self._folder, self._seed, self._nodes, nursery, self.say)
                nursery.start_soon(self._end_on_signal, nursery.cancel_scope)
                await cluster.build()
                await self._run(cluster)
                nursery.cancel_scope.cancel()
        finally:
            # Within the run: a process that ended unheard can't be asked about outside of it.
            if cluster is not None:
                cluster.remove()

    async def _end_on_signal(self, scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self.problems.append(f"ended by {signal.Signals(number).name}")
                scope.cancel()
                return

    async def _run(self, cluster: Cluster) -> None:
        for node in cluster.hosts:
            await cluster.start(node)
        started = await cluster.wait_working(within_seconds=WORKING_WITHIN_SECONDS)
        self.say(f"works {started:.2f} s after its start")
        nemesis = Nemesis(cluster, random.Random(self._seed))
        for number in range(CLIENTS):
            await self._start_client(cluster, number)
        until = time.monotonic() + self._seconds
        while (left := until - time.monotonic()) > 0 and not cluster.failures:
            await nemesis.run(seconds=min(ROUND_SECONDS, left))
            await cluster.heal()
            try:
                self._recoveries.append(await cluster.wait_working(within_seconds=WORKING_WITHIN_SECONDS))
            except TimeoutError as error:
                self.problems.append(str(error))
                break
            self.say(f"works {self._recoveries[-1]:.2f} s after all was healed")
        counts = await self._finish_clients()
        self.problems += cluster.failures
        await self._check(cluster, counts, nemesis)
        self._tracebacks(cluster)

    async def _start_client(self, cluster: Cluster, number: int) -> None:
        arguments = {
            "name": f"c{number}-",
            "seed": f"{self._seed}/{number}",
            "cluster_id": CLUSTER_ID,
            "nodes": {node: (address.host, address.port) for node, address in cluster.addresses.items()},
            "workers": WORKERS,
            "output": str(self._folder / f"client-{number}.jsonl"),
            "started_at": time.monotonic(),
        }
        with (self._folder / f"client-{number}.log").open("wb") as output:
            self._clients.append(
                await trio.lowlevel.open_process(
                    [sys.executable, str(HERE / "client.py"), json.dumps(arguments)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                )
            )

    async def _finish_clients(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for number, client in enumerate(self._clients):
            assert client.stdin is not None and client.stdout is not None
            await client.stdin.aclose()
            said = b""
            with trio.move_on_after(60):
                async for part in client.stdout:
                    said += part
                await client.wait()
            if client.returncode == 0:
                counts.update(json.loads(said.decode().splitlines()[-1]))
            else:
                log = (self._folder / f"client-{number}.log").read_text()[-2000:]
                self.problems.append(f"client {number} ended with code {client.returncode}: {log}")
        return counts

    async def _check(self, cluster: Cluster, counts: Counter[str], nemesis: Nemesis) -> None:
        ended_at = time.monotonic()
        dumps, statuses = {}, {}
        deadline = ended_at + WORKING_WITHIN_SECONDS
        while len(dumps) < len(cluster.hosts) and time.monotonic() < deadline:
            for node in cluster.hosts:
                if node not in dumps:
                    try:
                        dumps[node] = (await cluster.links.ask(node, {"dump": True}, seconds=30))["lists"]
                        statuses[node] = await cluster.links.ask(node, {"status": True})
                    except Exception as error:
                        self.say(f"node {node} gives no state: {error}")
                        await trio.sleep(0.2)
        if len(dumps) < len(cluster.hosts):
            self.problems.append("not every node gave its state at last")
        states = [json.dumps(dump, sort_keys=True) for dump in dumps.values()]
        if len(set(states)) > 1:
            self.problems.append(f"the nodes' states differ at last: {statuses}")
        calls = load(self._folder / f"client-{number}.jsonl" for number in range(CLIENTS))
        if dumps:
            lists = next(iter(dumps.values()))
            at_last = {key: tuple(values) for key, values in lists.items() if key != "working"}
            self.problems += problems(calls, at_last, ended_at=ended_at)
        try:
            await cluster.stop_wire()
        except (OSError, ValueError, trio.BrokenResourceError) as error:
            self.problems.append(f"the wire broke: {error}")
        self._print(cluster, counts, nemesis, statuses, checked=len(calls))

    def _tracebacks(self, cluster: Cluster) -> None:
        for node, host in cluster.hosts.items():
            text = host.log_file.read_text(errors="replace")
            if "Traceback" in text or "InvariantError" in text:
                place = max(text.find("Traceback"), text.find("InvariantError"))
                self.problems.append(f"node {node} logged a bug: {text[max(0, place - 200) : place + 1500]}")

    def _print(
        self,
        cluster: Cluster,
        counts: Counter[str],
        nemesis: Nemesis,
        statuses: dict[int, dict[str, object]],
        *,
        checked: int,
    ) -> None:
        print(f"seed {self._seed}, {self._nodes} nodes, {self._seconds:g} s of faults")
        print("calls: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        print("faults: " + ", ".join(f"{count} {name}" for name, count in sorted(nemesis.done.items())))
        print(f"stopped on a full disk, and came back: {cluster.ended_by_full_disk}")
        epoch = max((str(status["epoch"]) for status in statuses.values()), default="unknown")
        loads = sum(
            host.log_file.read_text(errors="replace").count("loaded a snapshot")
            for host in cluster.hosts.values()
        )
        print(f"epoch at last: {epoch}; snapshots installed from a leader: {loads}")
        print(f"packets: {cluster.wire_said}")
        if self._recoveries:
            slowest = max(self._recoveries)
            print(f"worked again after healing {len(self._recoveries)} times, within {slowest:.2f} s")
        print(f"checked: {checked} calls by their lists")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=180.0, help="of faults (default 180)")
    parser.add_argument("--seed", type=int, help="what decides the faults (default: drawn)")
    parser.add_argument("--nodes", type=int, default=3, choices=range(3, 6), help="3 to 5 (default 3)")
    parser.add_argument("--keep", action="store_true", help="keep the folder, not only if something is wrong")
    parser.add_argument("--quiet", action="store_true", help="only the figures")
    options = parser.parse_args()
    if (why := missing()) is not None:
        print(f"can't run here: {why}")
        return SKIPPED
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="nemesis-"))
    run = Run(options.seconds, seed, options.nodes, folder, quiet=options.quiet)
    print(f"seed {seed}, folder {folder}", flush=True)
    try:
        trio.run(run.main)
    except* CantRunHereError as group:
        print(f"can't run here: {group.exceptions[0]}")
        run.problems.append("can't run here")
    if run.problems == ["can't run here"]:
        shutil.rmtree(folder, ignore_errors=True)
        return SKIPPED
    for problem in run.problems:
        print(f"WRONG: {problem}")
    if run.problems or options.keep:
        print(f"kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print("all was well" if not run.problems else f"{len(run.problems)} problems")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
