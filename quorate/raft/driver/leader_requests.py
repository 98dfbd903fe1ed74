"""The leader's operations besides appends: prove its leadership, change voters, transfer leadership.

Each is an event for the core, and later an effect with its outcome. The waits between the two are here.
"""

from collections.abc import Callable

from quorate.error_code import ErrorCode
from quorate.raft.core import (
    ChangeVoters,
    Core,
    Event,
    ReadIndex,
    ReadIndexConfirmed,
    ReadIndexFailed,
    Role,
    TransferEnded,
    TransferLeadership,
    VoterChange,
    VotersChanged,
)
from quorate.raft.quorum_errors import (
    NotLeaderError,
    OutcomeUnknownError,
    QuorumError,
    RequestRefusedError,
)
from quorate.raft.waiters import IndexWaiter, TaskWaiter
from quorate.types import NodeId


class LeaderRequests:
    """Owned by the driver. `deliver` steps the core; its effects come back here."""

    def __init__(
        self, core: Core, deliver: Callable[[Event], None], *, not_leader: Callable[[], NotLeaderError]
    ) -> None:
        self._core = core
        self.not_leader = not_leader
        self._deliver = deliver
        self._round = 0
        self._under_way: list[IndexWaiter] = []
        """The waiters of the round that is under way."""
        self._next_round: list[IndexWaiter] = []
        self._number = 0
        self._changes: dict[int, TaskWaiter[None]] = {}
        self._transfers: dict[NodeId, TaskWaiter[None]] = {}

    # Read index. One round is under way at a time. Later requests share the next one: a round takes every
    # follower's parked Fetch, so a second round would only wait for the first.

    def read_index(self, waiter: IndexWaiter) -> None:
        """Find the offset that must be applied to see all that was committed before this call."""
        self._next_round.append(waiter)
        if not self._under_way:
            self._begin_round()

    def _begin_round(self) -> None:
        self._under_way, self._next_round = self._next_round, []
        self._round += 1
        self._deliver(ReadIndex(self._round))

    def confirm_reads(self, effect: ReadIndexConfirmed) -> None:
        if effect.read_round == self._round:
            for waiter in self._end_round():
                waiter.passed(effect.read_index)

    def fail_reads(self, effect: ReadIndexFailed) -> None:
        if effect.read_round == self._round:
            error = self.not_leader()
            for waiter in self._end_round():
                waiter.failed(error)

    def _end_round(self) -> list[IndexWaiter]:
        ended, self._under_way = self._under_way, []
        if self._next_round:
            # Its event is stepped after the effect that is being carried out.
            self._begin_round()
        return ended

    # Voters

    def check_change(self, change: VoterChange) -> None:
        """Raise `NotLeaderError` or `RequestRefusedError` if `change` would be refused now."""
        self._check_no_transfer()
        refused = self._core.refusal_of(change)
        if refused is not None:
            raise self._refusal_error(refused.error, refused.message)

    def _check_no_transfer(self) -> None:
        if self.holds_appends_back:
            raise RequestRefusedError(
                ErrorCode.REQUEST_TIMED_OUT, "leadership is being transferred; try again in a moment"
            )

    def _refusal_error(self, error: ErrorCode, message: str) -> QuorumError:
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return self.not_leader()
        return RequestRefusedError(error, message)

    async def change_voters(self, change: VoterChange) -> None:
        """Return when the change is committed. Raises `NotLeaderError` or `RequestRefusedError` when nothing
        happened, `OutcomeUnknownError`. If cancelled, the outcome is unknown."""
        self._check_no_transfer()
        self._number += 1
        number = self._number
        waiting = self._changes[number] = TaskWaiter[None]()
        try:
            self._deliver(ChangeVoters(number, change))
            await waiting.wait()
        finally:
            del self._changes[number]

    def end_change(self, effect: VotersChanged) -> None:
        waiting = self._changes.get(effect.request)
        if waiting is None:
            return
        if effect.unknown:
            waiting.failed(OutcomeUnknownError(effect.message))
        elif effect.error is not ErrorCode.NONE:
            waiting.failed(self._refusal_error(effect.error, effect.message))
        else:
            waiting.passed(None)

    # Leadership

    async def transfer_leadership(self, successor: NodeId) -> None:
        """Return when this node has resigned so that `successor` is elected; its election then begins.

        Raises `NotLeaderError`, or `RequestRefusedError` when this node leads on.
        """
        if self._core.role is not Role.LEADER:
            raise self.not_leader()
        waiting = TaskWaiter[None]()
        earlier = self._transfers.pop(successor, None)
        if earlier is not None:
            earlier.failed(_transfer_refusal(successor, ErrorCode.REQUEST_TIMED_OUT))
        self._transfers[successor] = waiting
        self._deliver(TransferLeadership(successor))
        await waiting.wait()

    @property
    def holds_appends_back(self) -> bool:
        """True while a successor catches up: nothing may be proposed then."""
        return bool(self._transfers)

    def end_transfer(self, effect: TransferEnded) -> None:
        waiting = self._transfers.pop(effect.successor, None)
        if waiting is not None:
            waiting.failed(_transfer_refusal(effect.successor, effect.error))

    # All of it

    def end_transfers(self) -> None:
        """End the transfers that are under way: this node does not lead any more."""
        transfers, self._transfers = self._transfers, {}
        for waiting in transfers.values():
            waiting.passed(None)

    def stop(self, error: QuorumError) -> None:
        """Fail every request that waits."""
        waiters = self._under_way + self._next_round
        self._under_way, self._next_round = [], []
        for index_waiter in waiters:
            index_waiter.failed(error)
        unknown = OutcomeUnknownError(f"{error}; the request may still be carried out")
        unknown.__cause__ = error.__cause__
        for waiting in (*self._changes.values(), *self._transfers.values()):
            waiting.failed(unknown)
        self._transfers.clear()


def _transfer_refusal(successor: NodeId, code: ErrorCode) -> RequestRefusedError:
    what = (
        "it is not another voter of this quorum; describe the quorum to see who is"
        if code is ErrorCode.INVALID_VOTER_KEY
        else "it is down, or did not catch up in an election timeout; try again, or see what slows it down"
    )
    return RequestRefusedError(code, f"leadership was not transferred to node {successor}: {what}")
