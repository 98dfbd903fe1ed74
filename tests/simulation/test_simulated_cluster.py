"""Users' mistakes, planted in a small service: the simulated cluster finds each, and names its kind."""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest
import trio

from quorate.raft import CommittedBatch, OutcomeUnknownError, SnapshotId
from quorate.simulation import (
    Fault,
    LivenessViolation,
    SafetyViolation,
    ServiceNode,
    SimulatedCluster,
    models,
)
from tests.kit.fresh_processes import same_in_two_processes

REQUESTS = (models.Add(1), models.Add(2), models.Read())
Request = models.Add | models.Read
Call = Callable[[ServiceNode["Sum"], Request], Awaitable[int]]


class Sum:
    """The service, without mistakes."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        results = []
        for record in batch.records:
            self.total += int(record)
            results.append(self.total)
        return results

    def take_snapshot(self) -> Iterator[bytes]:
        return iter([str(self.total).encode()])

    def load_snapshot(self, snapshot: SnapshotId) -> "SumLoader":
        return SumLoader(self)


class SumLoader:
    def __init__(self, sums: Sum) -> None:
        self.sums = sums
        self.data = b""

    def add(self, chunk: bytes) -> None:
        self.data += chunk

    def install(self) -> None:
        self.sums.total = int(self.data)


async def append(node: ServiceNode[Sum], amount: int) -> int:
    result = (await node.quorum.append([b"%d" % amount])).results[0]
    assert isinstance(result, int)
    return result


async def call(node: ServiceNode[Sum], request: Request) -> int:
    match request:
        case models.Read():
            return await node.quorum.read(lambda: node.state.total)
        case models.Add(amount):
            return await append(node, amount)


# The mistakes


class AppliesByTheClock(Sum):
    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        results = super().apply(batch)
        self.total += time.time_ns() % 2
        return results


class AppliesByChance(Sum):
    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        results = super().apply(batch)
        self.total += random.random() < 0.01
        return results


class AppliesByItsProcess(Sum):
    numbers = count()

    def __init__(self) -> None:
        super().__init__()
        self.number = next(self.numbers)

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        results = super().apply(batch)
        self.total += self.number % 3 == 2 and self.total > 20
        return results


class LoadsNothing(Sum):
    def load_snapshot(self, snapshot: SnapshotId) -> SumLoader:
        return SumLoader(Sum())


class SnapshotIsOfAPart(Sum):
    """What it leaves out shows at the next batch."""

    def __init__(self) -> None:
        super().__init__()
        self.amounts: list[int] = []

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        self.amounts += map(int, batch.records)
        results = super().apply(batch)
        self.total = sum(self.amounts)
        return results


class AnswersBefore(Sum):
    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        return [
            result - int(record) for result, record in zip(super().apply(batch), batch.records, strict=True)
        ]


class ForgetsAtTen(Sum):
    """Every tenth append is answered, and leaves no trace."""

    appends = 0

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        results = []
        for record in batch.records:
            self.appends += 1
            results.append(self.total + int(record))
            if self.appends % 10:
                self.total += int(record)
        return results


async def read_a_replica(node: ServiceNode[Sum], request: Request) -> int:
    return node.state.total if isinstance(request, models.Read) else await call(node, request)


async def repeat_unknown(node: ServiceNode[Sum], request: Request) -> int:
    while True:
        try:
            return await call(node, request)
        except OutcomeUnknownError:
            await trio.sleep(0.01)


class Register(Sum):
    """Keeps the last record."""

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        self.total = int(batch.records[-1])
        return [int(record) for record in batch.records]


async def read_then_write(node: ServiceNode[Sum], request: Request) -> int:
    """Compute the sum outside the state machine."""
    seen = await node.quorum.read(lambda: node.state.total)
    return await append(node, seen + request.amount) if isinstance(request, models.Add) else seen


def check(machine: Callable[[], Sum], call: Call, *, seeds: int = 20) -> None:
    SimulatedCluster(machine).check(models.Counter(), REQUESTS, call, seeds=seeds)


@pytest.mark.slow
def test_a_service_without_mistakes_passes() -> None:
    check(Sum, call)


PLANTED = [
    pytest.param(AppliesByTheClock, call, "states differ", id="clock"),
    pytest.param(AppliesByChance, call, "states differ", id="chance"),
    pytest.param(AppliesByItsProcess, call, "states differ", id="process"),
    pytest.param(LoadsNothing, call, "states differ", id="loader"),
    pytest.param(SnapshotIsOfAPart, call, "states differ", id="part", marks=pytest.mark.slow),
    pytest.param(Sum, read_a_replica, "stale read", id="replica", marks=pytest.mark.slow),
    pytest.param(Sum, repeat_unknown, "applied twice", id="repeated", marks=pytest.mark.slow),
    pytest.param(Register, read_then_write, "lost update", id="read-then-write", marks=pytest.mark.slow),
    pytest.param(ForgetsAtTen, call, "lost update", id="forgets", marks=pytest.mark.slow),
    pytest.param(AnswersBefore, call, "no order of these operations", id="answers-before"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "call", "kind"), PLANTED)
def test_a_planted_mistake_is_found_within_twenty_seeds_and_its_kind_is_named(
    machine: Callable[[], Sum], call: Call, kind: str
) -> None:
    with pytest.raises(SafetyViolation, match=rf"^seed \d+: {kind}") as found:
        check(machine, call)
    *_, faults, again = str(found.value).splitlines()
    # A call that is repeated needs an outcome that is not known, and so something that breaks.
    assert (faults == "faults: none are needed") == (kind != "applied twice"), faults
    assert again.startswith("to see it again: check(..., seeds=[")


@pytest.mark.slow
def test_a_seed_has_the_same_report_in_two_fresh_processes() -> None:
    report = same_in_two_processes(
        """
from tests.simulation.test_simulated_cluster import SafetyViolation, SnapshotIsOfAPart, call, check
try:
    check(SnapshotIsOfAPart, call)
except SafetyViolation as found:
    print(found)
"""
    )
    assert report.startswith("seed ")


@pytest.mark.slow
def test_every_event_is_shown_where_that_is_asked_for() -> None:
    shown: list[str] = []
    SimulatedCluster(Sum, voters=1).check(models.Counter(), REQUESTS, call, seeds=[1], show=shown.append)
    assert any("client-1 Add(amount=" in line for line in shown)
    assert any("node-1 leader epoch=" in line for line in shown)


@pytest.mark.slow
def test_requests_are_drawn_by_a_function_and_keys_are_checked_each_by_itself() -> None:
    @dataclass
    class Store:
        values: dict[str, int] = field(default_factory=dict)

        def apply(self, batch: CommittedBatch) -> Sequence[int]:
            for record in batch.records:
                key, _, value = record.decode().partition("=")
                self.values[key] = int(value)
            return [0] * len(batch.records)

    async def ask(node: ServiceNode[Store], request: models.Get | models.Put) -> int | None:
        match request:
            case models.Get(key):
                return node.state.values.get(str(key))
            case models.Put(key, value):
                await node.quorum.append([f"{key}={value}".encode()])
                return None

    def draw(source: random.Random) -> models.Get | models.Put:
        key = source.choice("xyz")
        return models.Get(key) if source.random() < 0.5 else models.Put(key, source.getrandbits(30))

    cluster = SimulatedCluster(Store, faults=[Fault.PARTITION, Fault.CRASH])
    with pytest.raises(SafetyViolation, match=r"^seed \d+: stale read: no order .* of key '[xyz]'"):
        cluster.check(models.KeyValue(), draw, ask, key=models.key_of)


@pytest.mark.slow
def test_a_call_that_waits_for_ever_is_named() -> None:
    async def wait(node: ServiceNode[Sum], request: Request) -> int:
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(LivenessViolation, match=r"^seed 0: call still waits: (Add|Read)\(.*\) of client-"):
        check(Sum, wait)


def test_an_error_of_the_call_has_the_seed_as_a_note() -> None:
    async def fail(node: ServiceNode[Sum], request: Request) -> int:
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing") as error:
        check(Sum, fail)
    assert any("by seed 0" in note for note in error.value.__notes__)


@pytest.mark.slow
def test_an_apply_that_raises_is_named_with_its_error() -> None:
    class Raises(Sum):
        def apply(self, batch: CommittedBatch) -> Sequence[int]:
            raise ValueError("no such record")

    with pytest.raises(SafetyViolation, match=r"^seed 0: .*apply raised ValueError \(no such"):
        check(Raises, call)
