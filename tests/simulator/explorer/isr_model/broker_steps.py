"""The steps of one broker, one for each event: the shipped code of its replica, on a copy of its state.

What is not the replica's own is modelled here, after `ReplicaManager`, `Hosting`, `LogManager` and
`BrokerLifecycle`: when metadata is acted upon, which directory a log is opened in, and what a process leaves
on its disks.
"""

import uuid
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Final

import trio

from quorate.broker.controller.rpc import AlterPartitionItem, AlterPartitionResult
from quorate.broker.metadata.configs import effective
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import is_reserved
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.following.taking_in import asked_for, take_in
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.errors import PartitionError, ReplicaFailedError
from quorate.broker.replication.foundation.failures import Failure, Failures
from quorate.broker.replication.foundation.purgatory import Purgatory
from quorate.broker.replication.foundation.replication_quota import ReplicationQuota, ReplicationQuotas
from quorate.broker.replication.foundation.requests import FetchItem, FetchOptions
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.hosting.replica_opening import may_open
from quorate.broker.replication.producing.batch_check import CheckedBatches, ProduceRules
from quorate.broker.replication.replica.isr_updater import isr_question, settle_isr
from quorate.broker.replication.replica.partition_replica import PartitionReplica, ReplicaContext, RoleChange
from quorate.broker.replication.replica.roles import FollowerState, IsrProposal
from quorate.broker.replication.serving.partition_reader import PartitionReader
from quorate.broker.replication.serving.plain_fetch import FetchService
from quorate.broker.replication.storage.proofs import NO_PROOF, Proof, newest_proof
from quorate.broker.wire.codecs.fetch_codec import FetchedPartition, FetchPartition
from quorate.broker.wire.wire_errors import wire_code
from quorate.error_code import ErrorCode
from quorate.simulation.violations import SafetyViolation
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Offset
from tests.simulator.explorer.isr_model.explored_broker import (
    LAG_SECONDS,
    Asked,
    ExploredBroker,
    Process,
    ReplicaFolder,
    replace_folder,
    with_folder,
)
from tests.simulator.explorer.isr_model.explored_images import TOPIC, TOPIC_ID, Images, partition_of
from tests.simulator.explorer.isr_model.memory_log import MemoryLog, produced
from tests.simulator.explorer.model import Memo

_MAX_BYTES: Final = 1 << 20


class _Replica(PartitionReplica):
    async def load_producers(self) -> None:
        """Do nothing: no producer here is idempotent."""


class _Unsent:
    """The proposal stays pending in the role, and is sent by a step of its own."""

    def submit(self, partition: PartitionReplica, proposal: IsrProposal) -> None:
        """Do nothing."""


def _uncut(partition: PartitionReplica, offset: Offset) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class StepClock(trio.abc.Clock):
    """Trio's clock while states are explored: its time is that of the step at hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def start_clock(self) -> None:
        """Nothing runs."""

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0.0


class BrokerSteps:
    """Every method returns another broker, and leaves the one that it is given alone. Call them in a run of
    trio with `clock`."""

    def __init__(self, images: Images, clock: StepClock) -> None:
        self._images = images
        self._clock = clock
        self._disk = SimulatedDisk()
        self._stats = ReplicationStats()
        self._quota = ReplicationQuota()
        self._quotas = ReplicationQuotas(0)
        self._rules = ProduceRules.of(effective(MetadataImage(), TOPIC, static={}))
        self._min_isrs = Memo(self._min_isr)
        """min.insync.replicas in an image."""
        self._contexts = Memo(self._context)
        """The context of a broker's replica with this newest image: (broker, image)."""
        self._failures = Failures()
        self._failures.subscribe(Failure, _no_failure)

    # The replica

    def _begin(self, machine: ExploredBroker) -> tuple[Process, PartitionReplica]:
        """Return a copy of the process, and the shipped replica in its state."""
        assert machine.process is not None
        process = machine.process.copied()
        return process, self._replica(machine.id, process)

    def _replica(self, broker_id: int, process: Process) -> PartitionReplica:
        assert process.log is not None
        self._clock.now = process.now

        replica = _Replica(
            self._contexts[broker_id, process.view],
            topic=TOPIC,
            topic_id=TOPIC_ID,
            partition_id=0,
            log=process.log,
            min_isr=self._min_isrs[process.view],
            rules=self._rules,
        )
        replica.role, replica.state = process.role, process.state
        replica.failure = "its disk failed" if process.failure else None
        return replica

    def _context(self, key: tuple[int, int]) -> ReplicaContext:
        broker_id, view = key
        metadata = CurrentMetadata({})
        if view >= 0:
            metadata.image = self._images[view]
        return ReplicaContext(
            broker_id=broker_id,
            disk=self._disk,
            lag_s=LAG_SECONDS,
            metadata=metadata,
            proposals=_Unsent(),
            failures=self._failures,
            stats=self._stats,
        )

    def _min_isr(self, view: int) -> int:
        return effective(self._images[view], TOPIC, static={}).min_insync_replicas

    def _end(self, machine: ExploredBroker, process: Process, replica: PartitionReplica) -> ExploredBroker:
        if process.role is not replica.role:
            # An answer from a leader counts for the role that it was asked for.
            process.asked, process.stuck = None, False
        process.role, process.state = replica.role, replica.state
        return replace(machine, process=process)

    def produce(self, machine: ExploredBroker, value: int) -> tuple[ExploredBroker, int] | None:
        """Append a record with acks=all. None: it is refused."""
        process, replica = self._begin(machine)
        records, header = produced(value)
        try:
            replica.append(CheckedBatches(records, [header]), acks=-1)
        except PartitionError:
            return None
        return self._end(machine, process, replica), value

    def lag(self, machine: ExploredBroker) -> ExploredBroker:
        """Let the lag time pass, and scan the ISR."""
        process, _ = self._begin(machine)
        process.now += 2 * LAG_SECONDS
        replica = self._replica(machine.id, process)
        replica.scan_isr()
        return self._end(machine, process, replica)

    # Following

    def ask(self, machine: ExploredBroker) -> tuple[ExploredBroker, tuple[int, FetchPartition]]:
        """Send the next fetch. Return the leader and the request."""
        process, replica = self._begin(machine)
        role = process.role
        assert isinstance(role, FollowerState)
        asked = asked_for(replica, role, max_bytes=_MAX_BYTES)
        process.asked = Asked(role.leader, role.leader_epoch, asked.fetch_offset)
        return replace(machine, process=process), (role.leader, asked)

    async def fetched(
        self, machine: ExploredBroker, asked: FetchPartition, *, follower: int, epoch: int
    ) -> tuple[ExploredBroker, FetchedPartition]:
        """Answer a follower's fetch, without a wait."""
        assert machine.process is not None
        if machine.process.log is None:
            return machine, FetchedPartition(index=0, error=wire_code(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        process, replica = self._begin(machine)
        reader = PartitionReader(
            lambda topic, partition_id: replica,
            self._failures,
            CurrentMetadata({}),
            cut_off=lambda partition: False,
            quotas=self._quotas,
            stats=self._stats,
            selects=False,
        )
        item = FetchItem(
            topic=TOPIC_ID,
            partition_id=0,
            fetch_offset=asked.fetch_offset,
            max_bytes=asked.max_bytes,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
            log_start_offset=asked.log_start_offset,
        )
        options = FetchOptions(items=(item,), max_wait_ms=0, replica_id=follower, replica_epoch=epoch)
        service = FetchService(reader, Purgatory(), max_bytes=_MAX_BYTES)
        results = await service.begin(options)
        assert isinstance(results, list)
        (result,) = results
        answer = FetchedPartition(
            index=0,
            error=wire_code(result.error),
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            diverging_epoch=result.diverging_epoch,
            records=result.records,
        )
        return self._end(machine, process, replica), answer

    async def take(self, machine: ExploredBroker, answer: FetchedPartition) -> tuple[ExploredBroker, None]:
        """Take in the answer to the fetch that is awaited."""
        process, replica = self._begin(machine)
        asked, role = process.asked, process.role
        assert asked is not None
        process.asked = None
        if (
            isinstance(role, FollowerState)
            and not process.stuck
            and (role.leader, role.leader_epoch) == asked[:2]
            and replica.log.end_offset == asked.offset
        ):
            try:
                await take_in(replica, role, answer, cutting=_uncut, quota=self._quota)
            except ReplicaFailedError:
                process.stuck = True
        return self._end(machine, process, replica), None

    def give_up_fetch(self, machine: ExploredBroker) -> ExploredBroker:
        """The connection to the leader breaks."""
        assert machine.process is not None
        process = machine.process.copied()
        process.asked = None
        return replace(machine, process=process)

    # The ISR

    def propose(self, machine: ExploredBroker) -> tuple[ExploredBroker, AlterPartitionItem] | None:
        """Ask the controller for the pending change. None: there is none."""
        process, replica = self._begin(machine)
        leading = replica.leading
        if leading is None or leading.isr.pending is None:
            return None
        process.question = leading.isr.pending
        return replace(machine, process=process), isr_question(replica, process.question)

    def settle(self, machine: ExploredBroker, result: AlterPartitionResult | None) -> ExploredBroker:
        """Take the controller's answer. None: it refused the whole request, or it is given up."""
        process, replica = self._begin(machine)
        proposal, process.question = process.question, None
        assert proposal is not None
        if result is not None:
            settle_isr(replica, proposal, result)
        return self._end(machine, process, replica)

    # Metadata

    def apply(self, machine: ExploredBroker, images: int) -> ExploredBroker:
        """Act upon the next `images` of the inbox as on one run of records."""
        assert machine.process is not None
        process = machine.process.copied()
        before = process.view
        process.view = process.inbox[images - 1]
        process.inbox = process.inbox[images:]
        process.owed = tuple((mark, max(0, left - images)) for mark, left in process.owed)
        after = self._images[process.view]
        state, own = partition_of(after), after.broker(machine.id)
        if own is not None and own.epoch == process.epoch and not own.fenced:
            process.proof = NO_PROOF
        machine = replace(machine, process=process)
        if machine.id not in state.replicas:
            return self._dropped(machine, process)
        machine = self._opened(machine, process, state)
        if process.log is None:
            return machine
        replica = self._replica(machine.id, process)
        if not process.failure:
            change = replica.apply(state)
            if change not in (RoleChange.NONE, RoleChange.ISR):
                process.asked, process.stuck = None, False
        if before >= 0 and self._images[before].brokers != after.brokers:
            replica.advance_high_watermark()
        if before >= 0 and self._min_isrs[before] != self._min_isrs[process.view]:
            replica.advance_high_watermark()
        return self._end(machine, process, replica)

    def _dropped(self, machine: ExploredBroker, process: Process) -> ExploredBroker:
        process.state = process.role = process.log = process.asked = process.question = None
        process.where, process.failure, process.stuck = -1, False, False
        folders = tuple(
            replace_folder(each, values=None) if each.online else each for each in machine.folders
        )
        return replace(machine, folders=folders)

    def _opened(self, machine: ExploredBroker, process: Process, state: PartitionState) -> ExploredBroker:
        if process.log is not None:
            return machine
        usable = [each for each in machine.folders if each.online and each.id not in process.failed]
        found = next((each for each in machine.folders if each.online and each.values is not None), None)
        own = frozenset(each.id for each in machine.folders if each.online)
        allowed = may_open(
            state,
            machine.id,
            found=None if found is None else found.id,
            own=own,
            all_usable=all(each.online for each in machine.folders),
        )
        if not allowed or not usable:
            return machine
        recorded = state.directory_of(machine.id)
        if found is None:
            if recorded in own and recorded not in {each.id for each in usable}:
                return machine
            named = None if is_reserved(recorded) else recorded
            place = next((each for each in usable if each.id == named), usable[0])
        elif found.id in process.failed:
            return machine
        else:
            place = found
        values = place.values or ()
        process.where = machine.folders.index(place)
        process.log = MemoryLog.opened(values, high_watermark=place.high_watermark)
        # Opening makes durable what is there.
        begun = replace_folder(place, values=values, high_watermark=place.high_watermark, synced=len(values))
        return replace(machine, folders=with_folder(machine.folders, process.where, begun))

    # Processes, and what they leave on the disks: after `LogManager` and `BrokerLifecycle`

    def start(self, machine: ExploredBroker) -> ExploredBroker:
        """Start a process on the directories that are there."""
        online = [each for each in machine.folders if each.online]
        folders = tuple(each._replace(clean=False) if each.online else each for each in machine.folders)
        process = Process(
            incarnation=machine.lives + 1, proof=newest_proof((each.id, each.proof) for each in online)
        )
        return replace(machine, folders=folders, process=process, lives=machine.lives + 1)

    def asked_to_stop(self, machine: ExploredBroker) -> ExploredBroker:
        """An operator wants the process to end in order."""
        assert machine.process is not None
        process = machine.process.copied()
        process.stopping = True
        return replace(machine, process=process)

    def registered(self, machine: ExploredBroker, epoch: int, view: int) -> ExploredBroker:
        """The controller has registered the process. `view`: the first image with its registration."""
        assert machine.process is not None
        process = machine.process.copied()
        online = [each.id for each in machine.folders if each.online and each.id not in process.failed]
        process.epoch = epoch
        if process.view < 0 and not process.inbox:
            process.inbox = (view,)
        folders = machine.folders
        if not process.failed:
            proof = Proof(epoch, frozenset(online))
            folders = tuple(
                each._replace(proof=proof, clean=False) if each.online else each for each in folders
            )
        return replace(machine, folders=folders, process=process)

    def killed(self, machine: ExploredBroker) -> ExploredBroker:
        """Kill the process. The page cache outlives it, and checkpoints keep their content."""
        folders = machine.written_back(high_watermark=False, synced=False)
        return replace(machine, folders=folders, process=None)

    def stopped(self, machine: ExploredBroker) -> ExploredBroker:
        """End the process in order: everything is synced, and marked as complete unless a disk failed."""
        assert machine.process is not None
        process = machine.process
        folders = machine.written_back(high_watermark=True, synced=True)
        if not process.failed and process.epoch >= 0 and process.view >= 0:
            proof = Proof(process.epoch, frozenset(each.id for each in folders if each.online))
            folders = tuple(
                each._replace(proof=proof, clean=True) if each.online else each for each in folders
            )
        return replace(machine, folders=folders, process=None)

    def power_lost(self, machine: ExploredBroker, *, tail: bool) -> ExploredBroker:
        """The host goes down. `tail`: the records that were not synced are there all the same."""
        folders = machine.written_back(high_watermark=False, synced=False)
        kept: list[ReplicaFolder] = []
        for each in folders:
            if not each.clean:
                each = each._replace(proof=None)
            if each.values is not None and not tail:
                each = each._replace(values=each.values[: each.synced])
            kept.append(each)
        return replace(machine, folders=tuple(kept), process=None)

    def folder_missing(self, machine: ExploredBroker) -> ExploredBroker:
        """The first directory is not there any more, while no process runs."""
        return replace(
            machine, folders=with_folder(machine.folders, 0, machine.folders[0]._replace(online=False))
        )

    def folder_back(self, machine: ExploredBroker) -> ExploredBroker:
        """The first directory is there again, as it was."""
        return replace(
            machine, folders=with_folder(machine.folders, 0, machine.folders[0]._replace(online=True))
        )

    def disk_replaced(self, machine: ExploredBroker, directory: uuid.UUID) -> ExploredBroker:
        """An empty directory is in the place of the first one, while no process runs."""
        return replace(
            machine,
            folders=with_folder(machine.folders, 0, ReplicaFolder(directory)),
            disks=machine.disks + 1,
        )

    def folder_failed(self, machine: ExploredBroker) -> ExploredBroker:
        """The replica's directory fails under the process, which withdraws every proof."""
        assert machine.process is not None
        process = machine.process.copied()
        failed = machine.folders[0]
        process.failed = process.failed | {failed.id}
        folders = machine.folders
        if process.where == 0:
            folders = machine.written_back(high_watermark=False, synced=False)
            if process.log is not None:
                replica = self._replica(machine.id, process)
                replica.fail("its disk failed")
                process.failure, process.role = True, replica.role
                process.asked = None
        folders = tuple(each._replace(proof=None, clean=False) for each in folders)
        return replace(machine, folders=folders, process=process)


def _no_failure(failure: Failure) -> None:
    raise SafetyViolation(f"no step fails: {failure}")
