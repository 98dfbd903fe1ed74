"""Warnings about messages that only a wrong configuration explains.

Each mistake is logged once, with its remedy. No message is refused for it: the protocol tolerates a voter
with a replaced disk, and a voter set that not all nodes have yet, and can't tell these from mistakes in time.
"""

from quorate.log.batches.batch import Batch
from quorate.log.batches.control import ControlType, control_records_of, read_leader_change
from quorate.quorum_state import ParameterNames
from quorate.runtime import get_logger
from quorate.types import NodeId, ReplicaKey, VoterSet

log = get_logger(__name__)

_NODES_MAX = 1000
_DIRECTORIES_MAX = 16


class Misconfiguration:
    """The warnings of one node about its quorum."""

    __slots__ = (
        "_configured",
        "_directories",
        "_names",
        "_node",
        "_reported_ids",
        "_reported_static",
        "_reported_voters",
        "_static",
    )

    def __init__(self, node: NodeId, configured: VoterSet, names: ParameterNames) -> None:
        """`configured`: the static voter set, empty if none is configured."""
        self._names = names
        self._node = node
        self._static = configured
        self._reported_static = False
        self._configured = tuple(sorted(configured.ids))
        self._directories: dict[NodeId, list[str | None]] = {}
        """The directories that each node has fetched with, the latest last."""
        self._reported_ids: dict[NodeId, None] = {}
        self._reported_voters: tuple[int, ...] | None = None

    def check_fetch(self, replica: ReplicaKey) -> None:
        """Check a fetch that this leader took. A replaced disk never fetches again. If it does, two nodes
        with one id share one vote and one acknowledgement."""
        directories = self._directories.get(replica.id)
        if directories is None:
            if len(self._directories) < _NODES_MAX:
                self._directories[replica.id] = [replica.directory_id]
        elif directories[-1] != replica.directory_id:
            if replica.directory_id in directories:
                directories.remove(replica.directory_id)
                self._report_twins(replica, directories[-1])
            directories.append(replica.directory_id)
            del directories[:-_DIRECTORIES_MAX]

    def _report_twins(self, replica: ReplicaKey, other: str | None) -> None:
        if replica.id not in self._reported_ids:
            self._reported_ids[replica.id] = None
            log.error(
                "two nodes have one id",
                node=replica.id,
                directories=[replica.directory_id, other],
                reason="what one of them acknowledges the other may not have; stop the one that does not "
                "belong here (compare directory.id in meta.properties), and give it an id of its own",
            )

    def check_voters_in_log(self, voters: VoterSet) -> None:
        """Check the configured set against that of the log or a snapshot, which counts (KIP-853)."""
        if self._reported_static or not self._static:
            return
        self._reported_static = True
        in_log, configured = _list_voters(voters), _list_voters(self._static)
        if in_log == configured:
            log.info(
                "the voters are in the log",
                node=self._node,
                voters=in_log,
                reason=f"{self._names.voters} says the same and does not count any more; "
                f"{self._names.bootstrap} can replace it",
            )
        else:
            log.warning(
                "the voters in the log count, not the configured ones",
                node=self._node,
                voters=in_log,
                configured=configured,
                reason=f"{self._names.voters} can't change a set that is in the log: use "
                f"{self._names.change_voters}, and replace it by {self._names.bootstrap}",
            )

    def check_control_batch(self, batch: Batch) -> None:
        """Check a control batch that this follower got from the leader. Raises `InvalidBatchError`."""
        if not self._configured:
            return
        for record, kind in control_records_of(batch):
            if kind is ControlType.KRAFT_VOTERS:
                # Leaders of later batches count these, and this node will: the same answer may bring both.
                self._configured = ()
                return
            if kind is not ControlType.LEADER_CHANGE:
                continue
            try:
                change = read_leader_change(record.value or b"")
            except ValueError:
                continue  # of a newer version: nothing depends on it
            voters = tuple(sorted(change.voters))
            if voters != self._configured and voters != self._reported_voters:
                log.error(
                    "the leader counts other voters than this node is configured with",
                    leader=change.leader,
                    its_voters=list(voters),
                    own_voters=list(self._configured),
                    reason="two majorities that need not share a node may each elect a leader; make "
                    f"{self._names.voters} the same on every node",
                )
            self._reported_voters = voters


def _list_voters(voters: VoterSet) -> list[str]:
    """Return the voters in the form of controller.quorum.voters, by id, without directory ids."""
    return [
        f"{voter.key.id}@{voter.endpoint.host}:{voter.endpoint.port}"
        for voter in sorted(voters, key=lambda voter: voter.key.id)
    ]
