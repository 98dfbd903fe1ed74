"""Real brokers under real faults: stock producers and a group, and whether anything acknowledged is lost.

    python scripts/nemesis/brokers.py --seconds 300 --seed 7 --results found.json
    python scripts/nemesis/brokers.py --table found.json

One fault a round, then all is healed and has to be there again: all replicas in sync, every partition
acknowledged and read, and all that was acknowledged read by the group. Needs root, iproute2 and /dev/net/tun.
Ends with 0 if all was well, with 77 if it can't run here.
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
from broker_cluster import TOPIC, BrokerCluster
from broker_faults import BROKER_FAULTS, BrokerNemesis
from ledger import Ledger, Tail, longest_gap
from machines import HERE, CantRunHereError, missing
from standstills import Piece, Round, add_piece, load_pieces, table_of

SKIPPED = 77
WORKING_WITHIN_SECONDS = 150.0
STARTED_WITHIN_SECONDS = 90.0
SETTLED_WITHIN_SECONDS = 200.0
REST_SECONDS = 3.0
KINDS = {"librdkafka": 2, "aiokafka": 1}
"""Clients, and their members of the group."""
PER_SECOND = 8.0


class BrokerRun:
    def __init__(self, seconds: float, seed: int, folder: Path, only: str | None, *, quiet: bool) -> None:
        self._seconds = seconds
        self._seed = seed
        self._folder = folder
        self._only = only
        self._quiet = quiet
        self._began = time.monotonic()
        self._clients: dict[str, trio.Process] = {}
        self._ledger = Ledger()
        self._tails = [Tail(folder / f"{kind}.jsonl") for kind in KINDS]
        self.problems: list[str] = []
        self.rounds: list[Round] = []
        self.acknowledged = self.read = 0

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
                cluster = BrokerCluster(self._folder, self._seed, 3, nursery, self.say)
                nursery.start_soon(self._end_on_signal, nursery.cancel_scope)
                await cluster.build()
                await self._run(cluster)
                nursery.cancel_scope.cancel()
        finally:
            # Within the run: a process that ended unheard can't be asked about outside of it.
            for client in self._clients.values():
                if client.returncode is None:
                    client.kill()
            if cluster is not None:
                cluster.remove()

    async def _end_on_signal(self, scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self.problems.append(f"ended by {signal.Signals(number).name}")
                scope.cancel()
                return

    async def _run(self, cluster: BrokerCluster) -> None:
        await cluster.format()
        for node in cluster.hosts:
            await cluster.start(node)
        await self._until_started(cluster)
        self.say("the brokers serve")
        await cluster.create_topic()
        for kind in KINDS:
            await self._start_client(cluster, kind)
        nemesis = BrokerNemesis(cluster, random.Random(self._seed))
        if not await self._wait_working(cluster, since=time.monotonic(), what="the start"):
            return
        until = time.monotonic() + self._seconds
        while time.monotonic() < until and not cluster.failures and not self.problems:
            await self._round(cluster, nemesis)
            self.problems += nemesis.problems
        self.problems += cluster.failures
        await self._finish(cluster)

    async def _until_started(self, cluster: BrokerCluster) -> None:
        with trio.fail_after(STARTED_WITHIN_SECONDS):
            while (await cluster.not_working()) is not None:  # noqa: ASYNC110 (other processes do it)
                await trio.sleep(0.2)

    async def _round(self, cluster: BrokerCluster, nemesis: BrokerNemesis) -> None:
        faults = [each for each in BROKER_FAULTS if self._only is None or self._only in each[0]]
        name, fault, _ = nemesis.draw.choices(faults, weights=[weight for _, _, weight in faults])[0]
        await trio.sleep(REST_SECONDS)
        began = time.monotonic()
        if not await fault(nemesis):
            return
        await nemesis.heal()
        healed = time.monotonic()
        self.say(f"healed: {name}")
        if not await self._wait_working(cluster, since=healed, what=name):
            return
        works = time.monotonic()
        for host in cluster.hosts.values():
            host.full = None
        self.rounds.append(
            Round(
                fault=name,
                held_s=healed - began,
                back_s=works - healed,
                producers_s={
                    kind: max(
                        longest_gap(of.acknowledged_at[kind], since=began, until=works)
                        for of in self._ledger.partitions.values()
                    )
                    for kind in KINDS
                },
                group_s=max(
                    longest_gap(of.advanced_at, since=began, until=works)
                    for of in self._ledger.partitions.values()
                ),
            )
        )
        done = self.rounds[-1]
        gaps = ", ".join(f"{kind} {gap:.2f} s" for kind, gap in done.producers_s.items())
        self.say(f"works after {done.back_s:.2f} s; longest gaps: {gaps}, the group {done.group_s:.2f} s")

    def _learn(self) -> None:
        for tail in self._tails:
            for event in tail.events():
                self._ledger.take(event)

    async def _wait_working(self, cluster: BrokerCluster, *, since: float, what: str) -> bool:
        """Until all replicas are in sync, each producer has been acknowledged in each partition, and the
        group has read all that was acknowledged before."""
        deadline = since + WORKING_WITHIN_SECONDS
        ends: dict[int, int] | None = None
        while True:
            why = await cluster.not_working()
            self._learn()
            if why is None:
                why = self._silent(since)
            if why is None:
                if ends is None:
                    ends = {key: of.acknowledged_end for key, of in self._ledger.partitions.items()}
                if not (unread := self._ledger.unread(ends)):
                    return True
                why = f"the group has read up to {unread} only, of {ends}"
            for node, host in cluster.hosts.items():
                if host.process is None and not host.killed and host.full:
                    await cluster.start(node)  # it stopped when its disk was full, and there is room now
            if self._ledger.problems or cluster.failures or time.monotonic() > deadline:
                self.problems += self._ledger.problems or [
                    f"{time.monotonic() - since:.1f} s after {what} was healed: {why}"
                ]
                self.say(f"does not work: {why}")
                return False
            await trio.sleep(0.25)

    def _silent(self, since: float) -> str | None:
        for partition in range(len(self._ledger.partitions) or 1):
            of = self._ledger.partitions[partition]
            for kind in KINDS:
                moments = of.acknowledged_at[kind]
                if not moments or moments[-1] < since:
                    return f"{kind} is not acknowledged in partition {partition}"
            if not of.advanced_at or of.advanced_at[-1] < since:
                return f"the group reads nothing of partition {partition}"
        return None

    async def _start_client(self, cluster: BrokerCluster, kind: str) -> None:
        arguments = {
            "kind": kind,
            "bootstrap": cluster.bootstrap,
            "topic": TOPIC,
            "partitions": cluster.partitions,
            "group": "readers",
            "members": KINDS[kind],
            "per_second": PER_SECOND,
            "output": str(self._folder / f"{kind}.jsonl"),
        }
        with (self._folder / f"{kind}.log").open("wb") as output:
            self._clients[kind] = await trio.lowlevel.open_process(
                [sys.executable, str(HERE / "stock_clients.py"), json.dumps(arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
            )

    async def _finish(self, cluster: BrokerCluster) -> None:
        settled = 0
        for kind, client in self._clients.items():
            assert client.stdin is not None and client.stdout is not None
            try:
                await client.stdin.send_all(b"no more\n")
                with trio.move_on_after(SETTLED_WITHIN_SECONDS):
                    settled += (await client.stdout.receive_some()).startswith(b"settled")
            except trio.BrokenResourceError:
                self.problems.append(f"the clients of {kind} have ended")
        if settled < len(KINDS):
            self.problems.append("not every producer has heard of all that it sent")
        logs, wrong = await cluster.replicas_agree(within_seconds=30)
        self.problems += wrong
        ends = {partition: len(log) for partition, log in logs.items()}
        with trio.move_on_after(60):
            while self._ledger.unread(ends):
                await trio.sleep(0.2)
                self._learn()
        for kind, client in self._clients.items():
            assert client.stdin is not None
            await client.stdin.aclose()
            with trio.move_on_after(60):
                await client.wait()
            if client.returncode is None:
                # Seen once of a consumer of librdkafka, since two of three brokers were killed. The others
                # have read everything by now, or the ledger says what is missing.
                print(f"NOT COUNTED: the clients of {kind} did not end within 60 s")
                client.kill()
            elif client.returncode != 0:
                said = (self._folder / f"{kind}.log").read_text(errors="replace")[-1500:]
                self.problems.append(f"the clients of {kind} ended with {client.returncode}: {said}")
        self._learn()
        self.problems += self._ledger.check(logs)
        self.acknowledged = sum(len(of.acknowledged) for of in self._ledger.partitions.values())
        self.read = sum(of.read_end for of in self._ledger.partitions.values())
        given_up = sum(len(of.given_up) for of in self._ledger.partitions.values())
        for node, host in cluster.hosts.items():
            text = host.log_file.read_text(errors="replace")
            if "Traceback" in text or "InvariantError" in text:
                place = max(text.find("Traceback"), text.find("InvariantError"))
                self.problems.append(f"node {node} logged a bug: {text[max(0, place - 200) : place + 1500]}")
        done = Counter(each.fault for each in self.rounds)
        print(f"seed {self._seed}: {time.monotonic() - self._began:.0f} s")
        print("faults: " + ", ".join(f"{count} {name}" for name, count in sorted(done.items())))
        print(f"{self.acknowledged} records acknowledged, {given_up} given up, {self.read} read by the group")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="the last round begins within (300)")
    parser.add_argument("--seed", type=int, help="what decides the faults (default: drawn)")
    parser.add_argument("--only", help="faults with this in their name")
    parser.add_argument("--results", type=Path, help="a JSON file that this run is added to")
    parser.add_argument("--table", type=Path, metavar="RESULTS", help="print such a file as a table, and end")
    parser.add_argument("--keep", action="store_true", help="keep the folder, not only if something is wrong")
    parser.add_argument("--quiet", action="store_true", help="only the figures")
    options = parser.parse_args()
    if options.table is not None:
        print(table_of(load_pieces(options.table)))
        return 0
    if (why := missing()) is not None:
        print(f"can't run here: {why}")
        return SKIPPED
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="nemesis-"))
    run = BrokerRun(options.seconds, seed, folder, options.only, quiet=options.quiet)
    began = time.monotonic()
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
    if options.results is not None:
        piece = Piece(
            date=time.strftime("%Y-%m-%d"),
            seed=seed,
            seconds=time.monotonic() - began,
            acknowledged=run.acknowledged,
            read=run.read,
            problems=run.problems,
            rounds=run.rounds,
        )
        add_piece(options.results, piece)
    if run.problems or options.keep:
        print(f"kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print("all was well" if not run.problems else f"{len(run.problems)} problems")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
