"""Learn of a cluster what can be learnt in some seconds.

All is asked at once, and nothing waits for a dead node.
The metadata come from the caller: the command line replays the log, a node has the image. The rest is asked
of the brokers and of the controllers.
"""

import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar, cast

import trio
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32

from quorate.broker.admin.admin_client import AdminClient, open_admin
from quorate.broker.admin.configs import Entity, EntityType, describe_configs
from quorate.broker.admin.controllers import Controllers
from quorate.broker.admin.quorum import describe_quorum
from quorate.broker.groups.group_state import REBALANCING
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChange,
    ConfigType,
    Partition,
    PartitionChange,
    RegisterBroker,
    Topic,
)
from quorate.broker.metadata.states import ConfigResource, PartitionKey, PartitionState
from quorate.broker.settings.topic_config import MIN_INSYNC_REPLICAS
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.own_messages import (
    DescribeDamageRequest,
    DescribeDamageResponse,
    DescribeStateChangesRequest,
    DescribeStateChangesResponse,
)
from quorate.broker.wire.wire_errors import KafkaError
from quorate.health.observation import (
    BrokerChange,
    BrokerFacts,
    BrokerReport,
    CertificateFacts,
    ControllerFacts,
    DamageFacts,
    DirectoryFacts,
    MetadataFacts,
    Observation,
    Part,
    PartitionChangeFacts,
    PartitionFacts,
    PendingChange,
    Place,
    QuorumFacts,
    RecentChanges,
    VoterFacts,
)
from quorate.history import Entry, HistoryError, MetadataHistory, entries_of
from quorate.kafka_bytes.varints import MalformedError
from quorate.log.batches.control import LeaderChange
from quorate.raft import QuorumDescription, ReplicaStatus
from quorate.raft.transport.description_frames import QuorumView
from quorate.runtime import Address, Network, NetworkError, Steps, TlsError, at_once

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.response import DescribeLogDirsResponse
    from kio.schema.list_groups.v5.response import ListGroupsResponse

BUDGET_S: Final = 2.8
"""The time for all."""
_ANSWER_S: Final = 1.6
"""The time for the first answer of any node, and after it for those of each."""
_REPORT_S: Final = 1.1
_PENDING: Final = 1000
_REBALANCING: Final = tuple(each.value for each in REBALANCING)
_CLIENT_ID: Final = "quorate-health"
_WINDOWS_S: Final = (900, 2 * 3600, 24 * 3600)
"""The end of the log is read in steps back to these ages, as long as there is time."""
_FORGET_S: Final = 900
"""Changes older than the last of these ages are forgotten so often."""
CHANGES_MAX: Final = 200_000
"""More changes than these are not kept: the older half is forgotten."""

_AT_A_TIME: Final = 50
"""Partitions between two pauses."""

T = TypeVar("T")


@dataclass(slots=True)
class _Found:
    """What the tasks of an observation have found so far."""

    quorum: QuorumFacts | None = None
    quorum_problem: str = "no answer in time"
    metadata: MetadataFacts | None = None
    metadata_problem: str = "the metadata log could not be read in time"
    read: trio.Event = field(default_factory=trio.Event)
    """The metadata are there, or can't be read."""
    default_min_isr: int | None = None
    reports: dict[int, Part[BrokerReport]] = field(default_factory=dict)


async def observe(
    network: Network,
    *,
    brokers: Sequence[Address] = (),
    controllers: Sequence[Address] = (),
    read_metadata: Callable[[], Awaitable[MetadataFacts]],
    metadata_source: str,
    clock_ms: Callable[[], int],
    earlier: Observation | None = None,
) -> Observation:
    """Observe a cluster within `BUDGET_S`. Without `brokers` and `controllers` only the metadata are read, as
    of a folder. `earlier`: the last observation of the same cluster. What can't be learnt is a `Part` with a
    problem; nothing is raised for it."""
    began = trio.current_time()
    found = _Found()
    with trio.move_on_after(BUDGET_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, read_metadata, found)
            if brokers:
                nursery.start_soon(_ask_brokers, network, brokers, found, clock_ms)
            elif controllers:
                nursery.start_soon(_ask_known_brokers, network, found, clock_ms)
            if controllers:
                nursery.start_soon(_ask_controllers, network, controllers, found, clock_ms)
    now_ms = clock_ms()
    quorum: Part[QuorumFacts] | None = None
    if brokers or controllers:
        source = "the controllers" if controllers else "the brokers, of their controllers"
        quorum = _part(source, now_ms, found.quorum, found.quorum_problem)
    metadata = found.metadata
    if metadata is not None and found.default_min_isr is not None:
        metadata = replace(metadata, default_min_isr=found.default_min_isr)
    if metadata is not None and (brokers or controllers):
        for broker in metadata.brokers.values():
            if not broker.fenced and broker.broker not in found.reports:
                found.reports[broker.broker] = _part(
                    f"broker {broker.broker}", now_ms, None, "no answer in time"
                )
    return Observation(
        now_ms=now_ms,
        reach=_reach("-b", brokers) if brokers else _reach("-C", controllers),
        brokers_reach=_reach("-b", brokers or _addresses_of(metadata).values()),
        quorum=quorum,
        metadata=_part(metadata_source, now_ms, metadata, found.metadata_problem),
        reports={
            broker: with_age(broker, part, found.quorum) for broker, part in sorted(found.reports.items())
        },
        rebalancing_since_ms=_rebalancing(found, earlier, now_ms),
        certificates=tuple(
            CertificateFacts(where=each.file, what=f"certificate {each.position} there", end_ms=each.end_ms)
            for each in network.certificates
        ),
        took_s=trio.current_time() - began,
    )


def _part(source: str, at_ms: int, facts: T | None, problem: str) -> Part[T]:
    return Part(source=source, at_ms=at_ms, facts=facts, problem=None if facts is not None else problem)


def with_age(broker: int, part: Part[BrokerReport], quorum: QuorumFacts | None) -> Part[BrokerReport]:
    """Add to the problem of a broker that did not answer when the active controller last heard its node."""
    if part.problem is None or quorum is None or quorum.leader in (None, broker):
        return part
    fetches = [
        each.last_fetch_ms
        for each in (*quorum.voters, *quorum.observers)
        if each.node == broker and each.last_fetch_ms is not None
    ]
    if not fetches:
        return part
    age_s = max(0, quorum.now_ms - max(fetches)) / 1000
    return replace(
        part, problem=f"{part.problem}; it last fetched from the quorum's leader {age_s:.1f} s ago"
    )


def _reach(option: str, addresses: Iterable[Address]) -> str:
    return f"{option} {','.join(map(str, addresses)) or 'HOST:PORT'}"


def _rebalancing(found: _Found, earlier: Observation | None, now_ms: int) -> dict[str, int]:
    before = {} if earlier is None else earlier.rebalancing_since_ms
    groups = {
        group for part in found.reports.values() if part.facts is not None for group in part.facts.rebalancing
    }
    return {group: before.get(group, now_ms) for group in groups}


async def _read(read_metadata: Callable[[], Awaitable[MetadataFacts]], found: _Found) -> None:
    try:
        found.metadata = await read_metadata()
    except (HistoryError, NetworkError, KafkaError, MalformedError) as error:
        found.metadata_problem = str(error)
    finally:
        found.read.set()


# Brokers


async def _ask_brokers(
    network: Network, addresses: Sequence[Address], found: _Found, clock_ms: Callable[[], int]
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_describe_through, network, addresses, found, clock_ms)
        nursery.start_soon(_learn_min_isr, network, addresses, found)
        live, problem = await _first(network, addresses, AdminClient.addresses)
        if live is None:
            found.quorum_problem = problem
            return
        await _report_all(network, live, found, clock_ms)


async def _ask_known_brokers(network: Network, found: _Found, clock_ms: Callable[[], int]) -> None:
    await found.read.wait()
    await _report_all(network, _addresses_of(found.metadata), found, clock_ms)


def _addresses_of(metadata: MetadataFacts | None) -> dict[int, Address]:
    """Return where the live brokers listen first."""
    return {
        each.broker: Address.parse(each.address)
        for each in ({} if metadata is None else metadata.brokers).values()
        if not each.fenced and each.address is not None
    }


async def _first(
    network: Network, addresses: Sequence[Address], ask: Callable[[AdminClient], Awaitable[T]]
) -> tuple[T | None, str]:
    """Ask all of the brokers at once. Return the first answer, or the problems."""
    answers: list[T] = []
    problems: dict[Address, str] = {}

    async def one(address: Address, scope: trio.CancelScope) -> None:
        problems[address] = f"{address}: no answer within {_ANSWER_S:g} s"
        try:
            async with open_admin(
                network, [address], client_id=_CLIENT_ID, connect_timeout_s=_ANSWER_S, timeout_s=_ANSWER_S
            ) as admin:
                answers.append(await ask(admin))
        except (NetworkError, KafkaError, MalformedError) as error:
            problems[address] = str(error)
        else:
            scope.cancel()

    with trio.move_on_after(_ANSWER_S):
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(one, address, nursery.cancel_scope)
    return (answers[0], "") if answers else (None, "; ".join(problems.values()))


async def _describe_through(
    network: Network, addresses: Sequence[Address], found: _Found, clock_ms: Callable[[], int]
) -> None:
    asked_ms = clock_ms()
    described, problem = await _first(network, addresses, describe_quorum)
    if described is not None:
        found.quorum = quorum_facts(described, asked_ms, clock_ms())
        return
    found.quorum_problem = problem
    # Brokers that answer other questions and not this one look for a leader.
    live, _ = await _first(network, addresses, _answers)
    if live is not None and found.quorum is None:
        found.quorum = QuorumFacts(
            leader=None,
            controllers=(ControllerFacts(address=str(live), problem="the broker there finds no leader"),),
        )


async def _answers(admin: AdminClient) -> str:
    await admin.brokers()
    return admin.any_broker.peer


async def _learn_min_isr(network: Network, addresses: Sequence[Address], found: _Found) -> None:
    async def ask(admin: AdminClient) -> int:
        broker = min((await admin.brokers()).live)
        described = await describe_configs(admin, Entity(EntityType.BROKERS, str(broker)), everything=True)
        return next(int(each.value or 1) for each in described if each.name == MIN_INSYNC_REPLICAS.name)

    found.default_min_isr, _ = await _first(network, addresses, ask)


async def _report_all(
    network: Network, addresses: Mapping[int, Address], found: _Found, clock_ms: Callable[[], int]
) -> None:
    async def one(broker: int, address: Address) -> None:
        report: BrokerReport | None = None
        problem = f"no answer within {_REPORT_S:g} s"
        with trio.move_on_after(_REPORT_S):
            try:
                async with open_admin(
                    network, [address], client_id=_CLIENT_ID, connect_timeout_s=_REPORT_S, timeout_s=_REPORT_S
                ) as admin:
                    report = await _report(admin, clock_ms)
            except NetworkError as error:
                cause = error.__cause__
                problem = str(cause) if isinstance(cause, TlsError) else f"nobody answers at {address}"
            except (KafkaError, MalformedError) as error:
                problem = str(error)
        found.reports[broker] = _part(f"broker {broker}", clock_ms(), report, problem)

    async with trio.open_nursery() as nursery:
        for broker, address in addresses.items():
            nursery.start_soon(one, broker, address)


async def _report(admin: AdminClient, clock_ms: Callable[[], int]) -> BrokerReport:
    directories = cast("DescribeLogDirsResponse", await admin.call(ApiKey.DESCRIBE_LOG_DIRS, topics=()))
    damage = await admin.send(DescribeDamageRequest(), DescribeDamageResponse)
    asked_ms = clock_ms()
    pending = await admin.send(
        DescribeStateChangesRequest(pending_only=True, limit=i32(_PENDING)), DescribeStateChangesResponse
    )
    answered_ms = clock_ms()
    groups = cast(
        "ListGroupsResponse", await admin.call(ApiKey.LIST_GROUPS, states_filter=(), types_filter=())
    )
    return BrokerReport(
        directories=tuple(
            DirectoryFacts(
                path=each.log_dir,
                failed=each.error_code is not ErrorCode.none,
                usable_bytes=each.usable_bytes if each.usable_bytes >= 0 else None,
                total_bytes=each.total_bytes if each.total_bytes >= 0 else None,
            )
            for each in directories.results
        ),
        damaged=tuple(
            DamageFacts(place=Place(str(each.topic_name), int(each.partition_index)), problem=each.problem)
            for each in damage.damaged
        ),
        pending=tuple(
            PendingChange(
                place=Place(str(each.topic_name), int(each.partition_index)),
                change=each.change,
                received_ms=int(each.received_ms),
                age_ms=each.duration_us / 1000,
                problem=each.problem,
            )
            for each in pending.changes
        ),
        applied_offset=int(pending.completed_offset if pending.backlog else pending.received_offset),
        ahead_ms=None if pending.now_ms < 0 else _outside(pending.now_ms, asked_ms, answered_ms),
        certificate_end_ms=admin.any_broker.certificate_end_ms,
        rebalancing=tuple(str(each.group_id) for each in groups.groups if each.group_state in _REBALANCING),
    )


def _outside(time_ms: int, first_ms: int, last_ms: int) -> int:
    """Return how far another clock's time is beyond the time in which it was asked for it; 0 if within."""
    return max(0, time_ms - last_ms) + min(0, time_ms - first_ms)


# Controllers


async def _ask_controllers(
    network: Network, addresses: Sequence[Address], found: _Found, clock_ms: Callable[[], int]
) -> None:
    asked_ms = clock_ms()
    asking = Controllers(network, addresses, timeout_ms=int(_ANSWER_S * 1000))
    views = await asking.views()
    leading = [
        each.description
        for each in views.values()
        if isinstance(each, QuorumView) and each.description is not None
    ]
    controllers = tuple(_controller(address, view) for address, view in views.items())
    if leading:
        newest = max(leading, key=lambda each: each.epoch)
        found.quorum = replace(quorum_facts(newest, asked_ms, clock_ms()), controllers=controllers)
    elif any(each.leader is not None for each in controllers):
        # One that was not asked leads.
        try:
            with trio.fail_after(BUDGET_S - _ANSWER_S):
                described = await asking.describe()
                found.quorum = replace(quorum_facts(described, asked_ms, clock_ms()), controllers=controllers)
        except (NetworkError, trio.TooSlowError):
            found.quorum = QuorumFacts(leader=None, controllers=controllers)
    elif all(each.problem is not None for each in controllers):
        found.quorum_problem = "; ".join(each.problem or "" for each in controllers)
    else:
        found.quorum = QuorumFacts(leader=None, controllers=controllers)


def _controller(address: Address, view: QuorumView | NetworkError) -> ControllerFacts:
    if isinstance(view, NetworkError):
        return ControllerFacts(address=str(address), problem=str(view))
    return ControllerFacts(
        address=str(address),
        node=None if view.node is None else view.node.id,
        leader=view.leader,
        epoch=view.epoch,
    )


def quorum_facts(quorum: QuorumDescription, asked_ms: int, answered_ms: int) -> QuorumFacts:
    """Return what the leader of a quorum says of it: when it was asked, and when it had answered."""

    def voter(each: ReplicaStatus) -> VoterFacts:
        return VoterFacts(
            node=each.key.id,
            directory=each.key.directory_id,
            log_end_offset=each.log_end_offset,
            last_fetch_ms=each.last_fetch_ms,
            last_caught_up_ms=each.last_caught_up_ms,
        )

    # The leader's own last fetch is the time of its answer.
    own = next((each for each in quorum.voters if each.key.id == quorum.leader), None)
    now_ms = 0 if own is None or own.last_fetch_ms is None else own.last_fetch_ms
    return QuorumFacts(
        leader=quorum.leader,
        epoch=quorum.epoch,
        now_ms=now_ms,
        ahead_ms=_outside(now_ms, asked_ms, answered_ms) if now_ms else 0,
        voters=tuple(map(voter, quorum.voters)),
        observers=tuple(map(voter, quorum.observers)),
    )


# Metadata


def metadata_facts(image: MetadataImage, recent: RecentChanges) -> MetadataFacts:
    """Return what an image says, with what is known of the changes that led to it."""
    return at_once(metadata_facts_in_steps(image, recent))


def metadata_facts_in_steps(
    image: MetadataImage,
    recent: RecentChanges,
    *,
    default_min_isr: int = 1,
    only: Iterable[PartitionKey] | None = None,
) -> Steps[MetadataFacts]:
    """Do the same where nothing may hold up an event loop. `default_min_isr`: unless the metadata have one.
    `only`: the partitions that may have problems; None: all."""
    partitions: dict[Place, PartitionFacts] = {}
    if only is None:
        only = (key for key, _ in image.all_partitions())
    for count, (place, facts) in enumerate(_partitions(image, only)):
        partitions[place] = facts
        if count % _AT_A_TIME == 0:
            yield
    dynamic = image.configs(ConfigResource(ConfigType.BROKER, "")).get(MIN_INSYNC_REPLICAS.name)
    return MetadataFacts(
        offset=image.offset,
        brokers={
            each.broker_id: BrokerFacts(
                broker=each.broker_id,
                fenced=each.fenced,
                in_controlled_shutdown=each.in_controlled_shutdown,
                reason=each.inactive_reason,
                rack=each.rack,
                address=str(Address(each.listeners[0].host, each.listeners[0].port))
                if each.listeners
                else None,
                feature_levels={feature.name: feature.max_level for feature in each.features},
            )
            for each in sorted(image.brokers.values(), key=lambda broker: broker.broker_id)
        },
        partitions=partitions,
        features=dict(image.features),
        recent=recent,
        default_min_isr=default_min_isr if dynamic is None else int(dynamic),
    )


def _partitions(image: MetadataImage, keys: Iterable[PartitionKey]) -> Iterator[tuple[Place, PartitionFacts]]:
    for topic_id, of_topic in groupby(keys, key=attrgetter("topic_id")):
        topic = image.topic_by_id(topic_id)
        if topic is None:
            continue
        own = image.configs(ConfigResource(ConfigType.TOPIC, topic.name)).get(MIN_INSYNC_REPLICAS.name)
        states = image.partitions(topic_id)
        for key in of_topic:
            state = states[key.partition_id]
            yield (
                Place(topic.name, key.partition_id),
                PartitionFacts(
                    leader=None if state.leader == NO_LEADER else state.leader,
                    replicas=state.replicas,
                    isr=state.isr,
                    elr=state.elr,
                    adding=state.adding_replicas,
                    removing=state.removing_replicas,
                    in_failed_directory=_in_failed_directory(image, state),
                    min_isr=None if own is None else int(own),
                ),
            )


def _in_failed_directory(image: MetadataImage, state: PartitionState) -> tuple[int, ...]:
    brokers = ((each, image.broker(each)) for each in state.replicas)
    return tuple(
        replica
        for replica, broker in brokers
        if broker is not None and not broker.has_online(state.directory_of(replica))
    )


@dataclass(slots=True)
class GatheredChanges:
    """The changes of a part of a log. `names`: of topics that were there before."""

    names: dict[uuid.UUID, str]
    brokers: dict[int, list[BrokerChange]] = field(default_factory=partial(defaultdict, list))
    partitions: dict[Place, list[PartitionChangeFacts]] = field(default_factory=partial(defaultdict, list))
    elections: list[int] = field(default_factory=list)

    def read(
        self, history: MetadataHistory, start: int, end: int, *, has_time: Callable[[], bool] = lambda: True
    ) -> bool:
        """Add the records in [start, end). Return False if there was no time for all of them."""
        for batch in history.batches(start, end) if start < end else ():
            if not has_time():
                return False
            for entry in entries_of(batch, start=start, end=end):
                self.add(entry)
        return True

    def append(self, later: "GatheredChanges") -> None:
        """Add changes that are later than all of these."""
        for broker, changes in later.brokers.items():
            self.brokers[broker] += changes
        for place, partition_changes in later.partitions.items():
            self.partitions[place] += partition_changes
        self.elections += later.elections

    @property
    def count(self) -> int:
        kept = sum(map(len, self.brokers.values())) + sum(map(len, self.partitions.values()))
        return kept + len(self.elections)

    def forget(self, since_ms: int) -> int:
        """Forget what is older, of topics that are gone, and more than `CHANGES_MAX`. Return the time from
        which on the changes are known."""
        if self.count > CHANGES_MAX:
            all_times = [*self.elections]
            for changes in self.brokers.values():
                all_times += [each.time_ms for each in changes]
            for moves in self.partitions.values():
                all_times += [each.time_ms for each in moves]
            since_ms = max(since_ms, sorted(all_times)[len(all_times) // 2])
        known = set(self.names.values())
        brokers = {broker: _since(kept, since_ms) for broker, kept in self.brokers.items()}
        partitions = {
            place: _since(kept, since_ms) for place, kept in self.partitions.items() if place.topic in known
        }
        self.brokers = defaultdict(list, {broker: kept for broker, kept in brokers.items() if kept})
        self.partitions = defaultdict(list, {place: kept for place, kept in partitions.items() if kept})
        self.elections = [each for each in self.elections if each >= since_ms]
        return since_ms

    def frozen(self, *, since_ms: int) -> RecentChanges:
        return RecentChanges(
            since_ms=since_ms,
            brokers={broker: tuple(changes) for broker, changes in self.brokers.items()},
            partitions={place: tuple(changes) for place, changes in self.partitions.items()},
            elections=tuple(self.elections),
        )

    def add(self, entry: Entry) -> None:
        """Add a record that is later than all of these."""
        time_ms = entry.timestamp_ms
        match entry.record:
            case LeaderChange():
                self.elections.append(time_ms)
            case RegisterBroker() as broker:
                self.brokers[broker.broker_id].append(
                    BrokerChange(time_ms=time_ms, registered=True, reason=broker.inactive_reason)
                )
            case BrokerRegistrationChange() as change:
                self.brokers[change.broker_id].append(
                    BrokerChange(
                        time_ms=time_ms,
                        offset=entry.offset,
                        fenced=change.fenced,
                        leaves=change.in_controlled_shutdown,
                        reason=change.reason,
                        last_heard_ms=change.last_heard_ms,
                    )
                )
            case Topic() as topic:
                self.names.setdefault(topic.topic_id, topic.name)
            case Partition() as made:
                self._add(made.topic_id, made.partition_id, time_ms, made.leader, made.isr)
            case PartitionChange() as change:
                reassigns = change.adding_replicas or change.removing_replicas
                self._add(
                    change.topic_id,
                    change.partition_id,
                    time_ms,
                    change.leader,
                    change.isr,
                    reassigns=bool(reassigns),
                    change=change,
                )
            case _:
                pass

    def _add(
        self,
        topic_id: uuid.UUID,
        partition: int,
        time_ms: int,
        leader: int | None,
        isr: tuple[int, ...] | None,
        *,
        reassigns: bool = False,
        change: PartitionChange | None = None,
    ) -> None:
        name = self.names.get(topic_id)
        if name is not None:
            self.partitions[Place(name, partition)].append(
                PartitionChangeFacts(
                    time_ms=time_ms,
                    leader=leader,
                    isr=isr,
                    reassigns=reassigns,
                    reason=None if change is None else change.reason,
                )
            )


_Change = TypeVar("_Change", BrokerChange, PartitionChangeFacts)


def _since(changes: list[_Change], since_ms: int) -> list[_Change]:
    return [each for each in changes if each.time_ms >= since_ms]


class RecentChangesReader:
    """Reads the end of a log: at first up to a day back, then what is new. It keeps `CHANGES_MAX` changes."""

    def __init__(self) -> None:
        self._changes: GatheredChanges | None = None
        self._since_ms = 0
        self._end_offset = 0

    def read(
        self,
        history: MetadataHistory,
        image: MetadataImage,
        *,
        end_offset: int,
        offset_at: Callable[[int], int | None],
        now_ms: int,
        has_time: Callable[[], bool],
    ) -> RecentChanges:
        """Return the changes up to `end_offset`, where the image is. At first they reach as far back as
        `has_time` lets them. `offset_at`: the offset of the first record at or after a time, None if there is
        none. Raises `HistoryError`."""
        names = {each.topic_id: each.name for each in image.topics.values()}
        if self._changes is None:
            self._changes = self._read_back(history, names, end_offset, offset_at, now_ms, has_time)
        else:
            self._changes.names = names
            self._changes.read(history, self._end_offset, end_offset)
            since_ms = now_ms - _WINDOWS_S[-1] * 1000
            if since_ms - self._since_ms >= _FORGET_S * 1000 or self._changes.count > CHANGES_MAX:
                self._since_ms = self._changes.forget(max(since_ms, self._since_ms))
        self._end_offset = end_offset
        return self._changes.frozen(since_ms=self._since_ms)

    def _read_back(
        self,
        history: MetadataHistory,
        names: dict[uuid.UUID, str],
        end_offset: int,
        offset_at: Callable[[int], int | None],
        now_ms: int,
        has_time: Callable[[], bool],
    ) -> GatheredChanges:
        whole = GatheredChanges(names)
        first, start = history.extent().start_offset, end_offset
        self._since_ms = now_ms
        for seconds in _WINDOWS_S:
            since_ms = now_ms - seconds * 1000
            begin = offset_at(since_ms)
            begin = start if begin is None else min(max(begin, first), start)
            earlier = GatheredChanges(names)
            if not earlier.read(history, begin, start, has_time=has_time):
                break
            earlier.append(whole)
            whole, start, self._since_ms = earlier, begin, since_ms
            if start <= first:
                break
        return whole
