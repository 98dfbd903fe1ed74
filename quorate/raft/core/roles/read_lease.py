"""Leases: reads that a leader answers without a round, because a majority has promised to elect nobody yet.

A voter that receives an answer of the leader promises to elect nobody for `promise_ms` by its own clock: it
neither stands for election nor grants a vote or pre-vote, in any epoch, whatever happens to the connection.
The leader's answer carries the leader's time, and the next Fetch returns it. So the leader knows a time
before the promise began, and takes four fifths of the promise from there on. While that holds for a majority,
with itself, no later epoch has a leader: one of its voters would have promised, and voted since. A voter that
voted before it could promise was in the later epoch then, and took no answer of this one.

That is as true as the bound on clocks: while a promise runs, no node's clock runs more than 1.25 times as
fast as another's. chrony corrects a clock by 83,333 ppm at most (its `maxslewrate`), and two clocks that are
corrected in opposite directions run at 1.18 to 1. If the bound is broken, a read may miss the latest commits.
Nothing else depends on it.

- The voters are those of the latest voter set, committed or not, at the time of the read. A new voter has
  promised nothing, or keeps the promise that it gave as an observer. Voter sets of which each may elect,
  while the other is not ruled out by commits, differ by one voter, so their majorities have one in common.
- A leader reads by its lease when it has committed a record of its epoch: only then it knows all earlier
  commits, and no candidate with an older voter set can win.
- The lease ends with the leadership. A leader that resigned, or restarted, tells the voters, which are free
  then. So an election after a transfer of leadership waits for no promise.
- A voter stores the length of its promise before it gives one. After a restart it keeps a promise of that
  length, since it does not know when it gave the last one, even if it is now configured with a shorter one or
  with none. It gives new ones when that is over, or if they are at least as long.
- The leader's clock counts while its host is suspended (see `quorate.runtime.SteadyClock`), and is read after
  the request for the read has come: a leader that was paused finds its lease at an end. A voter's timer may
  fire late.
"""

from typing import Final

from quorate.raft.core.messages import FetchRequest
from quorate.raft.core.roles.replica_progress import ReplicaProgress
from quorate.raft.core.roles.tracker import Replicas
from quorate.raft.core.shared_state import NodeState

LEASE_SHARE: Final = 4, 5
"""The part of a promise that the leader relies on, as a fraction: a clock at 5/4 of the leader's rate has
measured the whole promise then."""


def note_promise(replica: ReplicaProgress, request: FetchRequest) -> None:
    """Record the promise that the sender of a Fetch gave at the leader's last answer. Of an observer too:
    it may become a voter, or be one without knowing it."""
    if request.lease_time_ms and request.promise_ms:
        share, whole = LEASE_SHARE
        until_ms = request.lease_time_ms + request.promise_ms * share // whole
        replica.promised_until_ms = max(replica.promised_until_ms, until_ms)


def holds_lease(node: NodeState, replicas: Replicas, *, now_ms: int) -> bool:
    """Return whether a majority of the voters, this leader included, elects nobody at this time. False for a
    sole voter, which needs no lease."""
    needed = node.voters.majority - (1 if node.is_voter else 0)
    if needed == 0:
        return False
    promised = sorted((each.promised_until_ms for each in replicas.followers.values()), reverse=True)
    return now_ms < promised[needed - 1]
