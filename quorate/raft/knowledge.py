"""Knowledge of the quorum: what one node knows, to be read in any thread."""

from quorate.quorum_state import SkippedBatch
from quorate.raft.assembly import Node
from quorate.raft.core import Role
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import QuorumForkedError
from quorate.raft.watch.health import Health
from quorate.raft.watch.hearing import HeardLeader
from quorate.raft.watch.state_comparison import StateCheck
from quorate.types import Epoch, NodeId, Offset, VoterSet


class Knowledge:
    """The properties of a quorum. Each is computed from what the node has in memory, so reading one sends
    nothing. Any thread may read them."""

    def __init__(self, config: QuorumConfig, node: Node) -> None:
        self._config = config
        self._node = node

    def forked(self) -> None:
        """Mark this object as a copy in a forked process. Every later call raises `QuorumForkedError`."""
        # Already the look-up of a method raises: a call that is handed to a loop that does not run here
        # would wait for ever.
        own = type(self)
        self.__class__ = type(own.__name__, (own,), {"__getattribute__": _refuse_in_fork})  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def node_id(self) -> NodeId:
        """The id of this node in the quorum."""
        return self._config.node_id

    @property
    def leader(self) -> NodeId | None:
        """The leader that this node knows. It is this node itself only when it may serve (see `Leadership`).
        None: no leader, or as leader no majority of the voters, was heard within
        `CoreConfig.fetch_timeout_ms`."""
        return self._node.known_leader

    @property
    def epoch(self) -> Epoch:
        """The latest leader epoch that this node knows. Raft's term."""
        return self._node.leadership.current.epoch

    @property
    def role(self) -> Role:
        """The role of this node in the current epoch."""
        return self._node.leadership.role

    @property
    def is_leader(self) -> bool:
        """True if `leader` is this node."""
        return self.leader == self._config.node_id

    @property
    def predecessor(self) -> HeardLeader | None:
        """The leader that this node followed before its last election, and the time of its last sign: an
        answer, a call, or the end of its process, which closed the connection. None: this node was not
        elected since its start, or heard no other leader since its start or its election before."""
        return self._node.hearing.predecessor

    @property
    def high_watermark(self) -> Offset | None:
        """The first offset that is not known to be committed. None: not known yet in this epoch."""
        return self._node.driver.core.high_watermark

    @property
    def applied_offset(self) -> Offset:
        """The first offset that this node has not applied."""
        return self._node.driver.applier.applied_offset

    @property
    def health(self) -> Health:
        """The health of this node: whether it takes part in a working quorum, and if not, the reason. Sends
        nothing."""
        return self._node.health

    @property
    def voters(self) -> VoterSet:
        """The latest voter set in this node's log, committed or not. Without one, the configured set."""
        return self._node.driver.core.voters

    @property
    def has_dynamic_voters(self) -> bool:
        """True if the voter set is in the log, so that it can be changed (KIP-853, kraft.version 1)."""
        return self._node.driver.core.has_dynamic_voters

    @property
    def staleness_ms(self) -> int | None:
        """The maximum age, in ms, of the applied state. None: no bound is known.

        It is the time since the last linearizable read on this node was asked for, if that is less than what
        follows from the leader's answers to this node. A leader without a majority resigns within 1.5 fetch
        timeouts, so its answers were current at most that long before. That bound assumes that the clocks of
        all nodes run at about the same rate. On the leader only its reads count: a process that was paused
        may take itself for the leader.
        """
        return self._node.staleness_ms

    @property
    def has_read_lease(self) -> bool:
        """True if this node leads and answers linearizable reads by a lease now, without a message
        (`CoreConfig.read_lease_ms`)."""
        return self._node.driver.has_read_lease

    @property
    def state_check(self) -> StateCheck | None:
        """The last comparison of this node's state with those of the voters (`compare_states`). None: there
        was none since the start, as no snapshot was taken."""
        return self._node.states.last_check

    @property
    def state_version(self) -> int:
        """The version of the state machine's code that records may need, as far as this node has applied the
        log. It only grows (`Quorum.raise_state_version`)."""
        return self._node.driver.applier.state_version

    @property
    def skipped(self) -> tuple[SkippedBatch, ...]:
        """The committed batches that this node skips (`skip_batch`), in ascending order. They must be the
        same on every node."""
        return self._node.skipped


def forked_error() -> QuorumForkedError:
    """Return the error of every call in a forked process."""
    return QuorumForkedError(
        "this process was forked after the quorum was opened, and nothing of it runs here; open it in "
        "the process that uses it, once for each folder (gunicorn: one worker, without --preload, opened "
        "in post_worker_init; multiprocessing: the start method spawn)"
    )


def _refuse_in_fork(self: Knowledge, name: str) -> object:
    if name.startswith("_"):
        return object.__getattribute__(self, name)
    raise forked_error()
