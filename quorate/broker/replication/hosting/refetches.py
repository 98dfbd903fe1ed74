"""Damaged replicas are fetched anew: the log is set aside, and an empty one takes its place.

First the replica leaves the ISR, by a request that the controller grants only while enough other members
are there. With the grant the leader epoch goes up and the replica's directory counts as lost, so that nobody
can take the empty log for the old one: not by a fetch that is still on its way, nor by an ISR asked for
because of one, nor after a crash at any step.
"""

from typing import Final

import trio

from quorate.broker.controller.rpc import AssignReplicasToDirsRequest, DirectoryAssignment
from quorate.broker.metadata.metadata_records import DISCARDED
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.failures import DamageFound
from quorate.broker.replication.hosting.hosting import Hosting
from quorate.broker.replication.replica.directory_assignments import AssignDirectories
from quorate.broker.replication.replica.hosted_replicas import HeldReplica, HostedReplicas
from quorate.error_code import ErrorCode
from quorate.log import TopicPartition
from quorate.runtime import Entropy, Tasks, get_logger

log = get_logger(__name__)

_RETRY_SECONDS: Final = 30.0
_WHY: Final = {
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no other live replica is sure to have every record",
    ErrorCode.NOT_ENOUGH_REPLICAS: "without it fewer than min.insync.replicas would be in the ISR",
}


class Refetches:
    """One at a time. `refetch` for a person, `by_itself` where the configuration asks for it."""

    def __init__(
        self,
        broker_id: int,
        metadata: CurrentMetadata,
        hosted: HostedReplicas,
        hosting: Hosting,
        *,
        assign: AssignDirectories,
        entropy: Entropy,
        tasks: Tasks,
        timeout_s: float,
    ) -> None:
        self._broker_id = broker_id
        self._hosting = hosting
        self._hosted = hosted
        self._metadata = metadata
        self._assign = assign
        self._entropy = entropy
        self._tasks = tasks
        self._timeout_s = timeout_s
        self._lock = trio.Lock()
        self._wanted: set[TopicPartition] = set()

    async def refetch(self, topic: str, partition_id: int) -> str:
        """Set the log aside and begin an empty one; the path of the old one now. Raises `PartitionError`: the
        replica then goes on with the log that it has."""
        async with self._lock:
            held = self._hosting.hold(topic, partition_id)
            try:
                await self._leave(held)
                path = await self._hosting.set_aside(held, self._entropy.uuid())
            finally:
                self._hosting.release(held)
        log.warning(
            "a damaged log was set aside, and the replica is fetched anew",
            topic=topic,
            partition=partition_id,
            path=path,
        )
        return path

    async def _leave(self, held: HeldReplica) -> None:
        name = f"{held.topic}-{held.partition_id}"
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._metadata.broker_epoch,
            assignments=(
                DirectoryAssignment(
                    topic_id=held.topic_id, partition_id=held.partition_id, directory_id=DISCARDED
                ),
            ),
        )
        problem = f"{name}: this broker's metadata does not show that it left the ISR"
        try:
            response = await self._assign(request)
        except Exception as error:
            # It may have left all the same.
            problem = f"{name}: the controller did not answer ({error!r})"
        else:
            code = response.error or response.results[0].error
            if code is not ErrorCode.NONE:
                raise PartitionError(code, f"{name}: {_WHY.get(code, response.error_message or code.name)}")
        with trio.move_on_after(self._timeout_s):
            await held.left.wait()
        if not held.left.is_set():
            raise PartitionError(ErrorCode.REQUEST_TIMED_OUT, problem)

    def by_itself(self, damage: DamageFound) -> None:
        """Try until the replica is whole, or not here any more."""
        key = (damage.topic, damage.partition_id)
        if key not in self._wanted and not self._tasks.ended:
            self._wanted.add(key)
            self._tasks.start(lambda: self._try(key))

    async def _try(self, key: TopicPartition) -> None:
        try:
            while self._hosted.is_damaged(*key):
                try:
                    await self.refetch(*key)
                except PartitionError as error:
                    log.warning(
                        "a damaged replica can't be fetched anew for now",
                        topic=key[0],
                        partition=key[1],
                        reason=error.message,
                    )
                await trio.sleep(_RETRY_SECONDS)
        finally:
            self._wanted.discard(key)
