"""Tells the controller which directory each replica is in (AssignReplicasToDirs, KIP-858): one request at a
time per broker, a replica's newest directory, until the controller has it or there is no such replica."""

import uuid
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, TypeAlias

import trio

from quorate.broker.controller.operations.directory_changes import MAX_ASSIGNMENTS
from quorate.broker.controller.rpc import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryAssignment,
)
from quorate.broker.metadata.metadata_records import LOST
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.storage.partition_folders import PartitionFolders
from quorate.error_code import ErrorCode
from quorate.runtime import get_logger

log = get_logger(__name__)

AssignDirectories: TypeAlias = Callable[
    [AssignReplicasToDirsRequest], Awaitable[AssignReplicasToDirsResponse]
]
"""Sends to the active controller. An exception is a failure whose outcome is unknown."""

Replica: TypeAlias = tuple[uuid.UUID, int]
"""Topic id and partition."""

_BACKOFF_MIN_S: Final = 0.1
_BACKOFF_MAX_S: Final = 10.0
_NOT_HERE = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""The replica no longer exists. Repeating the request would never end (KAFKA-16886)."""


class DirectoryAssignments:
    """Tells the controller of the directories of replicas. `report` is called after each change of a
    replica's metadata or of its directory, and `run` sends."""

    def __init__(
        self,
        broker_id: int,
        metadata: CurrentMetadata,
        folders: PartitionFolders,
        *,
        assign: AssignDirectories,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._folders = folders
        self._assign = assign
        self._wanted: dict[Replica, uuid.UUID] = {}
        self._wake = trio.Event()

    def __len__(self) -> int:
        """Return the number of replicas that the controller has yet to learn of."""
        return len(self._wanted)

    def report(self, topic: str, replica: Replica, state: PartitionState) -> None:
        """Tell the controller which directory the replica is in, unless `state` says the same, or it is in
        none."""
        actual = self._folders.directory_of(topic, replica[1])
        if actual is None:
            return
        if state.directory_of(self._broker_id) == actual:
            self._wanted.pop(replica, None)
        else:
            self._wanted[replica] = actual
            self._wake.set()

    def give_up(self, replica: Replica) -> None:
        """Report the replica's directory as unusable for now, so that another replica may lead. A later
        `report` takes it back if it was not sent yet."""
        self._wanted[replica] = LOST
        self._wake.set()

    def forget(self, replica: Replica) -> None:
        """Drop a replica that this broker no longer has."""
        self._wanted.pop(replica, None)

    async def run(self) -> None:
        """Send the assignments until cancelled."""
        pause = _BACKOFF_MIN_S
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._wanted:
                if await self._ask(dict(islice(self._wanted.items(), MAX_ASSIGNMENTS))):
                    pause = _BACKOFF_MIN_S
                else:
                    await trio.sleep(pause)
                    pause = min(2 * pause, _BACKOFF_MAX_S)

    async def _ask(self, batch: dict[Replica, uuid.UUID]) -> bool:
        """Return whether nothing in `batch` has to be sent again."""
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._metadata.broker_epoch,
            assignments=tuple(
                DirectoryAssignment(topic_id=topic_id, partition_id=number, directory_id=directory)
                for (topic_id, number), directory in batch.items()
            ),
        )
        try:
            response = await self._assign(request)
        except Exception as error:
            # Whatever it was: the outcome is unknown, and asking again is harmless.
            log.warning("the controller did not answer about directories", reason=str(error) or repr(error))
            return False
        if response.error is not ErrorCode.NONE:
            log.warning(
                "the controller refused directory assignments",
                error=response.error.name,
                reason=response.error_message,
            )
            return False
        errors = {(each.topic_id, each.partition_id): each.error for each in response.results}
        settled = [self._settled(replica, batch[replica], errors.get(replica)) for replica in batch]
        return all(settled)

    def _settled(self, replica: Replica, directory: uuid.UUID, error: ErrorCode | None) -> bool:
        if self._wanted.get(replica) != directory:
            return True  # moved on meanwhile, or gone
        del self._wanted[replica]
        if error is ErrorCode.NONE or error in _NOT_HERE:
            return True
        log.warning(
            "a directory assignment was refused",
            topic_id=str(replica[0]),
            partition=replica[1],
            error=None if error is None else error.name,
        )
        # Behind the others, so that it holds up none of them.
        self._wanted[replica] = directory
        return False
