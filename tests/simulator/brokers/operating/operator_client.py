"""An operator of a simulated broker cluster: the topics that are its own, and calls whose answers are checked
against the committed metadata."""

import enum
import random
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin.admin_client import AdminClient
from quorate.broker.metadata.metadata_records import QuotaEntity
from quorate.broker.wire.wire_errors import KafkaError
from quorate.raft import OutcomeUnknownError
from quorate.runtime import NetworkError
from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.admin_history import AdminHistory, Answer
from tests.simulator.administration.answered_state import GroupOffset, KeptRecords
from tests.simulator.administration.intents import Intent
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost
from tests.simulator.brokers.loss_budget import LossBudget
from tests.simulator.brokers.one_broker import code_of, open_one

T = TypeVar("T")

_MARGIN_S: Final = 1.0
"""Brokers look for a controller as long as a request allows: they can still say that they found none."""
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.unknown_server_error,
        ErrorCode.network_exception,
        ErrorCode.not_controller,
    }
)
_ALREADY: Final = frozenset(
    {
        ErrorCode.no_reassignment_in_progress,
        ErrorCode.election_not_needed,
    }
)
_FEWER_BROKERS: Final = frozenset({ErrorCode.broker_id_not_registered, ErrorCode.invalid_replica_assignment})
"""The answers to a second attempt if a broker lost its registration after the first."""
PREFIX: Final = "op"
"""The names of operators' topics begin with it, and no others."""


class Counted(enum.Enum):
    """The operator's knowledge of a topic's number of partitions."""

    SURE = "sure"
    GROWN = "grown"
    """A request to grow it may still be under way: it must not shrink."""
    UNSURE = "unsure"


@dataclass(slots=True, kw_only=True)
class OwnTopic:
    """A topic that one operator alone changes."""

    name: str
    topic_id: uuid.UUID | None
    """None: it was asked for more than once, and no answer said it."""
    partitions: int
    unclean: bool
    """Leaders that lack records are allowed, so nothing is said of its records."""
    once: bool
    """Its creation was asked for once. Of several requests one may be under way still: it must stay."""
    counted: Counted = Counted.SURE
    placed: bool = True
    """No request to reassign its replicas may be under way still."""
    drained: set[int] = field(default_factory=set)
    """The brokers that all its replicas have left, and were given none since."""
    records: dict[int, KeptRecords] = field(default_factory=dict)
    asked: int = 0
    """The records that were sent."""

    def records_of(self, partition_id: int) -> KeptRecords:
        return self.records.setdefault(partition_id, KeptRecords())


class OperatorClient:
    """`finishing`: set when no new work should begin."""

    def __init__(
        self,
        cluster: BrokerCluster,
        history: AdminHistory,
        number: int,
        source: random.Random,
        finishing: trio.Event,
        budget: LossBudget,
    ) -> None:
        self.cluster = cluster
        self.history = history
        self.random = source
        self.number = number
        self.finishing = finishing
        self.budget = budget
        self.topics: list[OwnTopic] = []
        self.groups: list[GroupOffset] = []
        self.quotas: list[tuple[QuotaEntity, str]] = []
        """Those that it asked for, and did not ask to be removed since."""
        self._serial = 0

    @property
    def name(self) -> str:
        return f"operator-{self.number}"

    def serial(self) -> int:
        """A number that no operator has drawn before."""
        self._serial += 1
        return 100 * self._serial + self.number

    def new_name(self) -> str:
        return f"{PREFIX}{self.number}-{self.serial()}"

    def some_host(self) -> BrokerHost:
        return self.random.choice(self.cluster.nodes)

    def some_replicas(self) -> tuple[int, ...]:
        """Return brokers for a partition: never fewer than min.insync.replicas, on which the budget of faults
        counts."""
        settings = self.cluster.settings
        brokers = range(1, settings.brokers + 1)
        least = min(settings.min_isr, settings.brokers)
        return tuple(self.random.sample(brokers, self.random.randint(least, settings.brokers)))

    def some_topic(self, fits: Callable[[OwnTopic], bool] = lambda topic: True) -> OwnTopic | None:
        fitting = [topic for topic in self.topics if fits(topic)]
        return self.random.choice(fitting) if fitting else None

    async def ask(
        self,
        intent: Intent,
        send: Callable[[AdminClient], Awaitable[object]],
        *,
        to: BrokerHost | None = None,
    ) -> tuple[Answer, ErrorCode | None]:
        """Ask a broker once. A refusal raises `KafkaError`. The error code is None if there was no answer."""

        async def send_one(admin: AdminClient) -> Sequence[ErrorCode]:
            return [await code_of(send(admin))]

        return (await self.ask_for_all([intent], send_one, to=to))[0]

    async def ask_for_all(
        self,
        intents: Sequence[Intent],
        send: Callable[[AdminClient], Awaitable[Sequence[ErrorCode]]],
        *,
        to: BrokerHost | None = None,
    ) -> Sequence[tuple[Answer, ErrorCode | None]]:
        """Ask a broker once for several changes, each with its own answer."""
        return await self.record(intents, lambda: self.connected(send, to=to))

    async def record(
        self, intents: Sequence[Intent], ask: Callable[[], Awaitable[Sequence[ErrorCode] | None]]
    ) -> Sequence[tuple[Answer, ErrorCode | None]]:
        """Record the intents and the answers, and check them. `ask` returns None for no answer."""
        calls = [self.history.invoke(self.name, intent) for intent in intents]
        codes: Sequence[ErrorCode | None] = await ask() or [None] * len(calls)
        answers: list[tuple[Answer, ErrorCode | None]] = []
        for call, code in zip(calls, codes, strict=True):
            answer = self._answer_of(call.intent, code)
            self.cluster.trace.add(
                self.name, f"{call.intent.what}: {answer.value if code is None else code.name}"
            )
            try:
                self.history.answered(call, answer)
            except SafetyViolation as violation:
                self.cluster.found("Administration", violation)
            answers.append((answer, code))
        return answers

    def _answer_of(self, intent: Intent, code: ErrorCode | None) -> Answer:
        if code is ErrorCode.broker_id_not_registered and intent.unregisters:
            return Answer.ALREADY
        if code in _FEWER_BROKERS and self.budget.is_one_unregistered:
            return Answer.UNKNOWN
        return answer_of(code)

    async def connected(
        self, send: Callable[[AdminClient], Awaitable[T]], *, to: BrokerHost | None = None
    ) -> T | None:
        """Send one request to a broker; None if no answer came."""
        host = to or self.some_host()
        try:
            async with open_one(
                self.cluster, host, self.name, client_id=self.name, margin_s=_MARGIN_S
            ) as admin:
                return await send(admin)
        except (NetworkError, KafkaError, OutcomeUnknownError):
            return None

    async def insist(
        self, intent: Intent, send: Callable[[AdminClient], Awaitable[object]]
    ) -> tuple[Answer, ErrorCode | None, int]:
        """Ask again and again until the answer is one. Return it, its error code, and the number of times,
        without those when the operator was above its quota."""
        asked = 0
        while True:
            answer, code = await self.ask(intent, send)
            if code is not ErrorCode.throttling_quota_exceeded:
                asked += 1
                if answer is not Answer.UNKNOWN:
                    return answer, code, asked
            await trio.sleep(0.2)

    @contextmanager
    def creating(self) -> Iterator[None]:
        """While a partition is about to be created, no directory may be lost (`DirectoryFaults`)."""
        self.cluster.creating += 1
        try:
            yield
        finally:
            self.cluster.creating -= 1

    async def settled(self) -> bool:
        """Wait until topics may be created (`Administrator`); False if it is time to finish."""
        while not self.cluster.may_create():
            if self.finishing.is_set():
                return False
            await trio.sleep(0.1)
        return not self.finishing.is_set()


def answer_of(code: ErrorCode | None) -> Answer:
    if code is None or code in _UNKNOWN:
        return Answer.UNKNOWN
    if code is ErrorCode.none:
        return Answer.DONE
    return Answer.ALREADY if code in _ALREADY else Answer.REFUSED
