"""An image that operations change, and the log that made it, without a controller and in one step."""

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from quorate.broker.controller.chores import Chores
from quorate.broker.controller.operations.alter_partition import alter_partition
from quorate.broker.controller.operations.brokers import (
    fence_broker,
    heartbeat,
    register_broker,
    unregister_broker,
)
from quorate.broker.controller.operations.directories import may_lead
from quorate.broker.controller.operations.directory_changes import assign_replicas_to_dirs
from quorate.broker.controller.operations.number_of_partitions import create_partitions, shrink_topics
from quorate.broker.controller.operations.outcome import Groups, Outcome, R
from quorate.broker.controller.operations.reassignments import alter_partition_reassignments
from quorate.broker.controller.operations.topic_lifecycle import Draw, create_topics, delete_topics
from quorate.broker.controller.rpc import (
    AlterPartitionItem,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    Assignment,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    CreatedTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeletedTopic,
    DeleteTopicsRequest,
    DirectoryAssignment,
    ExtendedTopic,
    FewerPartitions,
    IsrMember,
    MorePartitions,
    NewTopic,
    ReassignmentItem,
    ReassignmentResult,
    RegisterBrokerRequest,
    ShrinkTopicsRequest,
    ShrunkTopic,
    TopicRef,
    UnregisterBrokerRequest,
)
from quorate.broker.metadata.configs import min_insync_replicas
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerEndpoint,
    BrokerRegistrationChange,
    ChangeReason,
    Config,
    ConfigType,
    PartitionChange,
    Record,
)
from quorate.broker.metadata.record_codec import decode, encode
from quorate.broker.metadata.states import PartitionState
from quorate.broker.settings.broker_settings import TopicSettings
from quorate.error_code import ErrorCode
from quorate.runtime.slices import at_once
from tests.broker.controller.images import image_of

CLUSTER = "hIYbZ8XNQqiEnzUO1CPmSw"
LISTENERS = (BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092),)


def directory(broker_id: int, number: int = 0) -> uuid.UUID:
    """The id of one of a broker's directories."""
    return uuid.UUID(int=(3 << 100) + broker_id * 100 + number)


def manual(*replicas: tuple[int, ...]) -> tuple[Assignment, ...]:
    """The replicas of each partition, as a client names them."""
    return tuple(Assignment(partition_id=index, replicas=each) for index, each in enumerate(replicas))


class ModelCluster:
    """An image, and the log that made it."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.log: list[Record] = []
        self.static: Mapping[str, str] = MappingProxyType({})
        self.piece_size = 128
        """The number of partitions that one piece of work changes."""
        self.patience = 1_000_000
        """The number of pieces until a requester gives up. The rest is still under way then."""
        self._chores: Chores | None = None
        self.last_heard_ms = 1_700_000_000_000
        """The last heartbeat of brokers that are fenced."""
        self._drawn = 0

    def append(self, *records: Record) -> None:
        for record in records:
            self.image.apply(record, offset=len(self.log), epoch=1)
            self.log.append(record)

    @property
    def chores(self) -> Chores:
        """The chores under way; with the present settings if there are none."""
        if not self._chores:
            self._chores = Chores(self.image, static=self.static, size=self.piece_size)
        return self._chores

    def write(self, groups: Groups) -> None:
        """Append as the controller does, with the chores that follow from each record."""
        for record in (record for group in groups for record in group):
            if isinstance(record, PartitionChange | BrokerRegistrationChange):
                assert record.reason is not None, f"the log must say why: {record}"
            self.append(record)
            self.chores.after(record)

    def work(self, *, pieces: int | None = None) -> None:
        """Do the next `pieces` of the chores; all of them by default."""
        pieces = self.patience if pieces is None else pieces
        while pieces and self.chores:
            pieces -= 1
            for groups, _ in self.chores.piece():
                self.write(groups)

    def repair(self) -> None:
        """Let a new controller begin, and finish the chores that it finds."""
        self._chores = None
        self.chores.repair()
        self.work(pieces=1_000_000)

    def do(self, outcome: Outcome[R]) -> R:
        """Carry out an operation that is decided in one step, and all that follows from it."""
        return self.perform(lambda _: outcome)

    def perform(self, decide: Callable[[int | None], Outcome[R]]) -> R:
        """Carry out an operation, to its end if there is patience, and all that follows from it. The answer
        to a requester that gave up means nothing."""
        departed = None
        while True:
            outcome = decide(departed)
            self.write(outcome.groups)
            first = outcome.first
            if first is None:
                self.work()
                return outcome.response
            self.chores.depart(first)
            self.work()
            if self.chores.leaves(first.broker_id):
                return outcome.response
            departed = first.broker_epoch

    def replayed(self) -> MetadataImage:
        """The image that the log makes, through its bytes."""
        return image_of(decode(encode(record)) for record in self.log)

    def epoch(self, broker_id: int) -> int:
        broker = self.image.broker(broker_id)
        assert broker is not None
        return broker.epoch

    def incarnation(self, number: int) -> uuid.UUID:
        return uuid.UUID(int=(1 << 100) + number)

    def registration(
        self,
        broker_id: int,
        *,
        incarnation: int = 0,
        previous: int = -1,
        dirs: tuple[int, ...] = (0,),
        proven: tuple[int, ...] | None = None,
    ) -> RegisterBrokerRequest:
        """The request of a broker. `dirs`: its online directories by number; `proven`: those of its previous
        life, the same by default."""
        before = dirs if proven is None else proven
        return RegisterBrokerRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=self.incarnation(incarnation),
            listeners=LISTENERS,
            previous_broker_epoch=previous,
            log_dirs=tuple(directory(broker_id, each) for each in dirs),
            previous_log_dirs=tuple(directory(broker_id, each) for each in before),
        )

    def register(self, broker_id: int, *, live: bool = False, **options: object) -> tuple[ErrorCode, int]:
        """Register, and all that follows. `live`: the registered process has a session; `options`: those of
        `registration`."""
        request = self.registration(broker_id, **options)
        response = self.perform(
            lambda departed: register_broker(
                self.image,
                request,
                cluster_id=CLUSTER,
                live_session=live,
                next_offset=len(self.log),
                departed=departed,
            )
        )
        return response.error, response.broker_epoch

    def beat(
        self,
        broker_id: int,
        *,
        fence: bool = False,
        stop: bool = False,
        offset: int | None = None,
        goal: int | None = None,
        lowest: int | None = None,
        failed: tuple[int, ...] = (),
    ) -> str:
        """Send a heartbeat. Return the answer as one word. `failed`: the offline directories, by number."""
        response = self.do(
            heartbeat(
                self.image,
                BrokerHeartbeatRequest(
                    broker_id=broker_id,
                    broker_epoch=self.epoch(broker_id),
                    current_metadata_offset=len(self.log) if offset is None else offset,
                    want_fence=fence,
                    want_shut_down=stop,
                    offline_log_dirs=tuple(directory(broker_id, each) for each in failed),
                ),
                shutdown_offset=goal,
                lowest_active_offset=lowest,
                leaves=self.chores.leaves(broker_id),
            )
        )
        assert response.error is ErrorCode.NONE
        if response.should_shut_down:
            return "shut down"
        return "fenced" if response.is_fenced else "unfenced"

    def start(self, *broker_ids: int, dirs: tuple[int, ...] = (0,)) -> None:
        for broker_id in broker_ids:
            self.register(broker_id, dirs=dirs)
            assert self.beat(broker_id) == "unfenced"

    def unregister(self, broker_id: int) -> ErrorCode:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        return self.perform(lambda departed: unregister_broker(self.image, request, departed=departed)).error

    def assign(self, broker_id: int, *items: tuple[uuid.UUID, int, int]) -> tuple[ErrorCode, ...]:
        """AssignReplicasToDirs. `items`: topic id, partition, and the number of the directory."""
        response = self.do(
            assign_replicas_to_dirs(
                self.image,
                AssignReplicasToDirsRequest(
                    broker_id=broker_id,
                    broker_epoch=self.epoch(broker_id),
                    assignments=tuple(
                        DirectoryAssignment(
                            topic_id=topic_id, partition_id=number, directory_id=directory(broker_id, each)
                        )
                        for topic_id, number, each in items
                    ),
                ),
                static=self.static,
            )
        )
        assert response.error is ErrorCode.NONE
        return tuple(result.error for result in response.results)

    def fence(self, broker_id: int) -> None:
        self.write(
            fence_broker(
                self.image, broker_id, reason=ChangeReason.BROKER_FENCED, last_heard_ms=self.last_heard_ms
            )
        )
        self.work()

    def draw(self) -> Draw:
        self._drawn += 1
        return Draw(topic_id=uuid.UUID(int=self._drawn), start=0, shift=0)

    def create(self, name: str, *replicas: tuple[int, ...]) -> uuid.UUID:
        (created,) = self.make(NewTopic(name=name, assignments=manual(*replicas)))
        assert created.error is ErrorCode.NONE, created.error_message
        assert created.topic_id is not None
        return created.topic_id

    def make(
        self, *topics: NewTopic, validate_only: bool = False, **defaults: int
    ) -> tuple[CreatedTopic, ...]:
        """CreateTopics. `defaults`: the settings of topics that name none."""
        request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
        draws = [self.draw() for _ in topics]
        steps = create_topics(self.image, request, draws=draws, defaults=TopicSettings(**defaults))
        return self.do(at_once(steps)).topics

    def extend(self, *items: MorePartitions, validate_only: bool = False) -> tuple[ExtendedTopic, ...]:
        """CreatePartitions."""
        request = CreatePartitionsRequest(topics=items, validate_only=validate_only)
        return self.do(at_once(create_partitions(self.image, request))).topics

    def shrink(self, *items: FewerPartitions, validate_only: bool = False) -> tuple[ShrunkTopic, ...]:
        """ShrinkTopics."""
        request = ShrinkTopicsRequest(topics=items, validate_only=validate_only)
        return self.do(shrink_topics(self.image, request)).topics

    def delete(self, *topics: TopicRef | str) -> tuple[DeletedTopic, ...]:
        """DeleteTopics, by name or by reference."""
        refs = tuple(TopicRef(name=each) if isinstance(each, str) else each for each in topics)
        return self.do(delete_topics(self.image, DeleteTopicsRequest(topics=refs))).topics

    def reassign(
        self,
        topic: str,
        replicas: tuple[int, ...] | None,
        *,
        partition: int = 0,
        resize: bool = True,
    ) -> ReassignmentResult:
        """AlterPartitionReassignments of one partition; None cancels."""
        item = ReassignmentItem(topic=topic, partition_id=partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(partitions=(item,), allow_factor_change=resize)
        (result,) = self.do(alter_partition_reassignments(self.image, request, static=self.static)).partitions
        self.check_between_pieces()
        return result

    def isr_item(
        self, topic_id: uuid.UUID, *isr: int, partition: int = 0, **fields: object
    ) -> AlterPartitionItem:
        """The request of a leader that knows the partition's state; `fields` have other values than that."""
        state = self.partition(topic_id, partition)
        values = {
            "topic_id": topic_id,
            "partition_id": partition,
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
            "new_isr": tuple(IsrMember(broker_id=each) for each in isr),
        }
        return AlterPartitionItem(**{**values, **fields})

    def ask_for_isr(
        self, *items: AlterPartitionItem, sender: int | None = None
    ) -> Outcome[AlterPartitionResponse]:
        """AlterPartition, by the leader of the first partition if no `sender` is named. It writes nothing."""
        leader = self.partition(items[0].topic_id, items[0].partition_id).leader if sender is None else sender
        request = AlterPartitionRequest(broker_id=leader, broker_epoch=self.epoch(leader), partitions=items)
        outcome = alter_partition(self.image, request, static=self.static)
        assert outcome.response.error is ErrorCode.NONE
        return outcome

    def alter_isr(
        self, topic_id: uuid.UUID, *isr: int, partition: int = 0, **fields: object
    ) -> AlterPartitionResult:
        """AlterPartition by the partition's leader, and all that follows from it."""
        item = self.isr_item(topic_id, *isr, partition=partition, **fields)
        (result,) = self.do(self.ask_for_isr(item)).partitions
        self.check_between_pieces()
        return result

    def configure(
        self, name: str, value: str | None, *, of: ConfigType = ConfigType.TOPIC, resource: str = "t"
    ) -> None:
        """Set a value, of topic t by default, and do all that follows from it."""
        self.write(((Config(resource_type=of, resource_name=resource, name=name, value=value),),))
        self.work()

    def partition(self, topic_id: uuid.UUID, partition_id: int = 0) -> PartitionState:
        state = self.image.partition(topic_id, partition_id)
        assert state is not None
        return state

    def check(self) -> None:
        """Check the invariants of every image without chores under way."""
        self.check_between_pieces()
        for key, state in self.image.all_partitions():
            assert state.leader == NO_LEADER or may_lead(self.image, state, state.leader)
            assert all(may_lead(self.image, state, member) for member in state.isr)
            topic = self.image.topics[key.topic_id].name
            least = min_insync_replicas(self.image, topic, static=self.static)
            assert not (state.elr and len(state.isr) >= min(least, len(state.original_replicas)))

    def check_between_pieces(self) -> None:
        """Check the invariants of every image, with and without chores under way."""
        for _, state in self.image.all_partitions():
            assert set(state.isr) <= set(state.replicas)
            assert set(state.elr) <= set(state.replicas)
            assert not set(state.isr) & set(state.elr)
            assert state.isr or state.elr or state.eligible.last_known
            assert not (state.isr and state.eligible.last_known)
            assert state.leader == NO_LEADER or state.leader in state.isr
            assert len(state.directories) in (0, len(state.replicas))
            assert set(state.adding_replicas) | set(state.removing_replicas) <= set(state.replicas)
            assert not set(state.adding_replicas) & set(state.removing_replicas)
            assert state.original_replicas
            assert state.target_replicas
        self.check_counts()

    def check_counts(self) -> None:
        image = self.image
        states = [state for _, state in image.all_partitions()]
        assert image.partition_count() == len(states)
        for broker_id in {*image.brokers, *(member for state in states for member in state.replicas)}:
            assert image.leader_count(broker_id) == sum(state.leader == broker_id for state in states)
            assert image.isr_count(broker_id) == sum(broker_id in state.isr for state in states)
            assert image.elr_count(broker_id) == sum(broker_id in state.elr for state in states)
        assert image.replica_homes() == Counter(
            (broker_id, state.directory_of(broker_id)) for state in states for broker_id in state.replicas
        )
        assert image.has_elrs == any(state.elr for state in states)
        assert sorted(image.isr_members()) == sorted({each for state in states for each in state.isr})
        for broker_id in {state.replicas[0] for state in states}:
            first = [state.leader for state in states if state.replicas[0] == broker_id]
            assert image.imbalance(broker_id) == sum(each != broker_id for each in first) / len(first)
        assert image.imbalanced_count == sum(state.leader != state.replicas[0] for state in states)
        assert image.reassigning_count == sum(state.is_reassigning for state in states)
        assert image.leaderless_count == sum(state.leader == NO_LEADER for state in states)
