"""What the way to the quorum's thread costs: the doors for asyncio and threads beside trio itself, which has
none, and beside a bare portal of anyio to a trio loop with nothing in it."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import trio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from report import Measure, Report, median_or_none

from quorate import aio, blocking, raft
from quorate.cli.node.free_ports import free_ports
from quorate.raft import CommittedBatch, NodeId, Offset, QuorumConfig, parse_voters

MANY = 256
RECORD = b"x" * 100
DOORS = ("trio", "aio", "blocking")
SYSTEMS = (*DOORS, "anyio portal")


@dataclass
class Count:
    count: int = 0

    def apply(self, batch: CommittedBatch) -> list[None]:
        self.count += len(batch.records)
        return [None] * len(batch.records)


@dataclass(frozen=True, slots=True)
class Rate:
    """Of calls, by both threads together."""

    per_second: float
    cpu_us: float
    """Per call. It does not depend on what else the machine does."""


class Stopwatch:
    """Begins when it is made."""

    def __init__(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def rate(self, calls: int) -> Rate:
        cpu = time.process_time() - self._cpu
        return Rate(calls / (time.perf_counter() - self._began), cpu / calls * 1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """By the number in flight. An empty call waits for nothing."""

    empty_1: Rate
    empty_many: Rate
    commits_1: Rate | None
    commits_many: Rate | None


def run(folder: Path, *, rounds: int, seconds: float) -> Report:
    taken: dict[str, list[Rates]] = {system: [] for system in SYSTEMS}
    for number in range(rounds):
        for place in range(len(SYSTEMS)):
            system = SYSTEMS[(place + number) % len(SYSTEMS)]
            taken[system].append(_RUNS[system](_configured(folder / f"{system}-{number}"), seconds))

    def row(name: str, unit: str, figure: Callable[[Rates], float | None]) -> Measure:
        values = {system: median_or_none([figure(each) for each in taken[system]]) for system in SYSTEMS}
        return Measure(name=name, unit=unit, values=values)

    def rows(name: str, calls: Callable[[Rates], Rate | None]) -> list[Measure]:
        return [
            row(name, "us", lambda each: (rate := calls(each)) and 1e6 / rate.per_second),
            row(f"{name}, CPU", "us", lambda each: (rate := calls(each)) and rate.cpu_us),
        ]

    many = row(
        f"commits, {MANY} in flight", "/s", lambda each: each.commits_many and each.commits_many.per_second
    )
    base = many.values["trio"]
    ratios = {door: own / base for door in DOORS if base and (own := many.values[door])}
    return Report(
        title="The way to the quorum's thread",
        systems=SYSTEMS,
        measures=[
            *rows("an empty call, 1 in flight", lambda each: each.empty_1),
            *rows(f"an empty call, {MANY} in flight", lambda each: each.empty_many),
            *rows("a commit, 1 in flight", lambda each: each.commits_1),
            *rows(f"a commit, {MANY} in flight", lambda each: each.commits_many),
            many,
            Measure(name="the same, of trio's", unit="", values=ratios),
        ],
        notes=[
            f"A quorum of one node, records of {len(RECORD)} B. {MANY} in flight are tasks on trio and "
            "asyncio, and threads otherwise."
        ],
    )


def _configured(folder: Path) -> QuorumConfig:
    blocking.format_folder(str(folder), cluster_id="hops", node_id=NodeId(1))
    voters = parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}")
    return QuorumConfig(node_id=NodeId(1), cluster_id="hops", folder=str(folder), voters=voters)


def _trio(config: QuorumConfig, seconds: float) -> Rates:
    async def rate(call: Callable[[], Awaitable[object]], in_flight: int) -> Rate:
        done, watch = 0, Stopwatch()
        end = time.perf_counter() + seconds

        async def repeat() -> None:
            nonlocal done
            while True:
                await call()
                await trio.lowlevel.checkpoint()
                done += 1
                if time.perf_counter() >= end:
                    return

        async with trio.open_nursery() as nursery:
            for _ in range(in_flight):
                nursery.start_soon(repeat)
        return watch.rate(done)

    async def main() -> Rates:
        async with raft.Quorum.open(config, Count()) as quorum:
            await quorum.wait_leader()
            return Rates(
                empty_1=await rate(lambda: quorum.wait_applied(Offset(0)), 1),
                empty_many=await rate(lambda: quorum.wait_applied(Offset(0)), MANY),
                commits_1=await rate(lambda: quorum.append([RECORD]), 1),
                commits_many=await rate(lambda: quorum.append([RECORD]), MANY),
            )

    return trio.run(main)


def _aio(config: QuorumConfig, seconds: float) -> Rates:
    async def rate(call: Callable[[], Awaitable[object]], in_flight: int) -> Rate:
        done, watch = 0, Stopwatch()
        end = time.perf_counter() + seconds

        async def repeat() -> None:
            nonlocal done
            while True:
                await call()
                done += 1
                if time.perf_counter() >= end:
                    return

        await asyncio.gather(*(repeat() for _ in range(in_flight)))
        return watch.rate(done)

    async def main() -> Rates:
        async with aio.Quorum.open(config, Count()) as quorum:
            await quorum.wait_leader()
            return Rates(
                empty_1=await rate(lambda: quorum.wait_applied(Offset(0)), 1),
                empty_many=await rate(lambda: quorum.wait_applied(Offset(0)), MANY),
                commits_1=await rate(lambda: quorum.append([RECORD]), 1),
                commits_many=await rate(lambda: quorum.append([RECORD]), MANY),
            )

    return asyncio.run(main())


def _in_threads(call: Callable[[], object], in_flight: int, seconds: float) -> Rate:
    begin = threading.Barrier(in_flight + 1)

    def repeat() -> int:
        begin.wait()
        done, end = 0, time.perf_counter() + seconds
        while True:
            call()
            done += 1
            if time.perf_counter() >= end:
                return done

    with ThreadPoolExecutor(in_flight) as pool:
        counts = [pool.submit(repeat) for _ in range(in_flight)]
        begin.wait()
        watch = Stopwatch()
        return watch.rate(sum(count.result() for count in counts))


def _blocking(config: QuorumConfig, seconds: float) -> Rates:
    with blocking.Quorum.open(config, Count()) as quorum:
        quorum.wait_leader()
        return Rates(
            empty_1=_in_threads(lambda: quorum.wait_applied(Offset(0)), 1, seconds),
            empty_many=_in_threads(lambda: quorum.wait_applied(Offset(0)), MANY, seconds),
            commits_1=_in_threads(lambda: quorum.append([RECORD]), 1, seconds),
            commits_many=_in_threads(lambda: quorum.append([RECORD]), MANY, seconds),
        )


async def _nothing() -> None:
    await trio.lowlevel.checkpoint()


def _portal(_: QuorumConfig, seconds: float) -> Rates:
    portal: BlockingPortal
    with start_blocking_portal("trio") as portal:
        return Rates(
            empty_1=_in_threads(lambda: portal.call(_nothing), 1, seconds),
            empty_many=_in_threads(lambda: portal.call(_nothing), MANY, seconds),
            commits_1=None,
            commits_many=None,
        )


_RUNS = {"trio": _trio, "aio": _aio, "blocking": _blocking, "anyio portal": _portal}
