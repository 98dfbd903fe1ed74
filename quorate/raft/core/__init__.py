r"""The Raft protocol alone: no I/O, no clock, no trio, no randomness of its own.

This is the manual for authors of a driver: the program around a `Core` that has the disk, the network, the
clock and the dice. quorate's own is quorate/raft/driver/driver.py. The protocol is KIP-595's, with KIP-630's
snapshots, KIP-853's voter changes and KIP-996's pre-vote.

The core
--------
A `Core` is one node of the quorum. `step` takes one event and returns a tuple of effects. The same events
always give the same effects. A core does nothing by itself: it neither blocks nor calls back. It knows the
log by offsets and epochs; the driver has the bytes. End offsets and high watermarks are exclusive. One task
owns a core.

Construction
------------
`Core` takes, by keyword:

- `config`: a `CoreConfig`. Durations are milliseconds.
- `cluster_id`: requests of other clusters are refused.
- `key`: this node's `ReplicaKey`, its id and the id of the directory that holds its log.
- `endpoint`: the address it listens at. None takes it from the voter set.
- `voters`: the configured `VoterSet`. It counts while the log has none. A node that joins has an empty one.
- `bootstrap`: servers to ask for the leader. Requests to the first have the destination -2, to the next -3,
  and so on; the driver gives that number to the answers as their `source`.
- `election`: the `ElectionState` in the quorum-state file. A new node has `ElectionState(Epoch(0))`.
- `log`: a `RecoveredLog`, see "Restart". A new node has `RecoveredLog()`.

`start()` is called once, before the first `step`. Its effects are carried out like those of a step.
`tell_time()` is called before each `step` if `config.read_lease_ms` is not 0.

Order
-----
Effects are carried out in the order of their tuple, and those of a step before those of the next. Some are
barriers: `Persist`, `Truncate` and `InstallSnapshot`. A barrier is complete, and durable, before any later
effect is carried out, of the same step or of a later one. `is_barrier` tells. Other effects begin in their
turn, and may complete later. quorate's driver steps nothing while a barrier is under way; events queue up.

A node must not say what a crash could make it forget. Two rules see to that:

- A Persist comes before every message that depends on it: a vote, a new epoch, a claim to lead.
- An acknowledgement waits for `Durable`. A follower fetches only when its whole log is durable, because a
  Fetch acknowledges all below its offset. A leader counts itself up to its durable end. A candidate stands
  with the durable part of its log.

So the driver holds no message back, except behind a barrier. A leader may send records that are not durable
on its own disk yet.

A driver in memory, from examples/minimal_driver.py. The names in quotes are paragraphs of this manual:

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:  # "Order": one after another, and a barrier is complete when `do` returns
            self.do(effect)
        if self.core.durable_end_offset < len(self.log):  # "The log": memory is as durable as it gets
            self.step(Durable(self.core.generation, Offset(len(self.log))))

    def do(self, effect: Effect) -> None:
        match effect:
            case fx.Persist(state):  # "Stored state"
                self.election = state
            case fx.AppendLeaderChange():  # "The log"
                self.log.append((effect.epoch, b""))
            case fx.AppendProposal():
                self.log += [(effect.epoch, value) for value in self.proposals.pop(effect.proposal)]
            case fx.AppendFetched(_, batches, records):
                values = bytes(records).split(b"\n")
                self.log += [(batch.epoch, value) for batch, value in zip(batches, values, strict=True)]
            case fx.RejectProposal():
                del self.proposals[effect.proposal]
            case fx.Truncate():
                del self.log[effect.end_offset :]
            case fx.Send(message):  # "Messages"
                self.network.append(message)
            case fx.SendRecords():
                self.network.append(self.with_records(effect))
            case fx.ArmTimer(timer):  # "Timers": a test fires them by hand
                self.timers[timer] = effect.max_ms
            case fx.CancelTimer(timer):
                self.timers.pop(timer, None)
            case fx.HighWatermarkAdvanced(high_watermark):  # "The application"
                self.high_watermark = high_watermark
            case fx.RoleChanged():
                pass
            case _:
                raise NotImplementedError(f"no snapshots, voter changes, reads or transfers here: {effect}")

Stored state
------------
  Persist (barrier)
    Write `state` to the quorum-state file.

The log
-------
Four effects append. The records are in the log at once, readable for later effects. A sync follows; one may
cover many appends. It is answered by `Durable`, with the core's `generation` and the log end from before the
sync. A generation ends with each Truncate and InstallSnapshot.

  AppendLeaderChange
    Append one batch with a LeaderChange record at `base_offset`; with `voter_set`, KRaftVersion and
    KRaftVoters records follow in the batch.
  AppendVoters
    Append one batch with a KRaftVoters record at `base_offset`, after a KRaftVersion record if `first`.
  AppendProposal
    Append the records of `Propose(proposal)` at [`base_offset`, `end_offset`). They are committed when the
    high watermark reaches `end_offset`. If this node stops leading before, the outcome is unknown: the next
    leader may commit them or cut them off.
  AppendFetched
    Append the fetched `records` as they are. `batches` describe them.
  RejectProposal
    This node does not lead, and nothing was appended for `proposal`. `leader` is the node to ask, if known.
  Truncate (barrier)
    Cut the log to `end_offset`, and forget epochs that start at or above it. No `Durable` is due for it.

Messages
--------
A request goes to `core.endpoint_of(destination)`. It is answered by `Received` with the response of the same
`correlation`, or by `RequestFailed` if the connection breaks or `request_timeout_ms` have passed. A response
goes back the way its request came, and is not answered.

  Send
    Send `message` as it is.
  SendRecords
    Send `response` with `batches` and `records`: whole batches from `start_offset` on, at least one, else up
    to `max_bytes`, never past the log end. The peer chose `max_bytes`; a driver may send less. If the core's
    `generation`, epoch or role changed while they were read, send nothing.
  SendSnapshotChunk
    Send `response` with `size`, `length` and `chunk`: up to `max_bytes` of the snapshot that it names, from
    its `position` on. If there are none, set `error` to SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE.

Snapshots
---------
  StoreSnapshotChunk
    Write `chunk` at `position` of the partial snapshot. At position 0 it begins anew, and any other partial
    snapshot is dropped. No event answers.
  CheckSnapshot
    All bytes are there. Sync the file, check it, give it its name, and load it beside the running state.
    Answer with `SnapshotChecked`, or remove it and answer with `SnapshotDamaged`.
  InstallSnapshot (barrier)
    Empty the log. It begins at the snapshot's end, and the loaded state becomes the state. `start` returns
    this for a snapshot that was checked before a crash and not installed. No `Durable` is due for it.

Timers
------
  ArmTimer
    Start `timer`, or start it anew, with a duration drawn uniformly from [`min_ms`, `max_ms`]. It ends once,
    in `TimerFired`.
  CancelTimer
    Stop `timer`, if it runs.

The application
---------------
  HighWatermarkAdvanced
    All records below `high_watermark` are committed: apply them. They may not be durable on this node yet. It
    never goes back while the process runs.
  RoleChanged
    The role, the epoch, the leader or this node's place among the voters is another. A leader is announced to
    the application when that has applied everything below `epoch_start_offset`.

Answers
-------
  VotersChanged
    Ends `ChangeVoters(request)`: committed, or refused with an error, or `unknown` because this node stopped
    leading.
  ReadIndexConfirmed
    Ends each `ReadIndex` up to `read_round`: a state with all records below `read_index` applied may be read.
  ReadIndexFailed
    Ends each `ReadIndex` up to `read_round`: this node does not lead.
  TransferEnded
    `TransferLeadership` came to nothing, and this node leads on if it led. If it leads no more, RoleChanged
    tells instead.

Events
------
  Received
    A message arrived. Of a FetchResponse the driver has checked each batch's CRC, and that `batches` describe
    `records`.
  RequestFailed
    No response came to the request of that `correlation`.
  Unreachable
    A hint: the connection to `node` broke and could not be reopened at once. Elections come sooner.
  Durable
    The log is durable below `end_offset`.
  CommitHeard
    A hint: the leader of `epoch` said that all below `end_offset` is committed. The next Fetch would tell
    too.
  TimerFired
    A timer that was armed has ended.
  Propose
    Append a batch of `count` records, one or more, which the driver keeps as `proposal`. The same step
    answers with `AppendProposal` or `RejectProposal`.
  Resign
    Stop leading. A node that does not lead ignores it.
  TransferLeadership
    Let `successor` be elected. Propose nothing until `TransferEnded` or the end of the leadership.
  ReadIndex
    Find out whether this node still leads. Each `read_round` is larger than the last.
  ChangeVoters
    Change the voter set by one of `AddVoter`, `RemoveVoter`, `UpdateVoter` and `AdoptVoters`.
  SnapshotTaken
    A snapshot of this node's state is durable. It ends at the end of a batch, neither above the high
    watermark nor above the durable end, and holds the voters that `core.voters_at` tells.
  LogStartMoved
    The log begins at the end of a snapshot. Told before the records below are removed.
  SnapshotChecked
    The fetched snapshot is whole and durable, and holds `voters`.
  SnapshotDamaged
    The fetched snapshot was not whole, and is removed.

Faults
------
- Messages may be lost, late, repeated and in any order. A response that is not waited for is ignored.
  Correlations begin anew at a restart, so a response to a request from before the restart must not be given
  to the new core: close the connections.
- A `Durable` may be late, repeated and in any order. One of an older generation is ignored. Until it comes
  the node acknowledges nothing; if it comes before the sync is done, a crash may lose committed records.
- A timer may fire late. Safety depends on no timer, except that PROMISE never fires early: a promise of a
  lease lasts until then. One that was cancelled or armed anew does not fire.
- A clock that breaks the bound of `quorate.raft.core.roles.read_lease` makes reads stale, where leases are
  on, and nothing else.
- A crash may come between any two effects.
- A write, a sync or a barrier that fails stops the node. What is on the disk then, only recovery can tell.

Restart
-------
The core, timers, requests, proposals, syncs and partial snapshots are gone. The driver reads the quorum-state
file and recovers the log: it cuts off a torn tail, and syncs the rest, because the core takes all of it for
durable. `RecoveredLog` has the log's ends, the start of each epoch, the latest complete snapshot, and the
voter sets of that snapshot and of the log above it. The application begins with that snapshot;
`HighWatermarkAdvanced` tells what to apply next. A node that led does not lead again in that epoch. A node
that lost what was durable is a new replica, with a new directory id: its key has acknowledged records and
given votes that it no longer knows.

InvariantError
--------------
A rule of the protocol does not hold: a bug of the core, a driver that broke a rule of this manual, or a peer
that lost what it had stored. `Core`, `start` and `step` raise it. The state may be half changed, and the
effects of the step are lost: drop the core and stop the node. Restart it from its disk. If that fails again,
rebuild it as a new replica. Stale and malformed requests raise nothing: they are refused.

`validate(core)` checks the order of the core's offsets as a whole. A test of a driver calls it after each
step; docs/explanation/offsets.md has the order.
"""

from quorate.invariant import InvariantError
from quorate.raft.core import effects
from quorate.raft.core.core import Core
from quorate.raft.core.core_config import BatchSpan, CoreConfig, Generation
from quorate.raft.core.effects import (
    AppendFetched,
    AppendLeaderChange,
    AppendProposal,
    AppendVoters,
    ArmTimer,
    CancelTimer,
    CheckSnapshot,
    Effect,
    HighWatermarkAdvanced,
    InstallSnapshot,
    Persist,
    ReadIndexConfirmed,
    ReadIndexFailed,
    RejectProposal,
    Role,
    RoleChanged,
    Send,
    SendRecords,
    SendSnapshotChunk,
    StoreSnapshotChunk,
    TransferEnded,
    Truncate,
    VotersChanged,
)
from quorate.raft.core.events import (
    AddVoter,
    AdoptVoters,
    ChangeVoters,
    CommitHeard,
    Durable,
    Event,
    LogStartMoved,
    Propose,
    ReadIndex,
    Received,
    RemoveVoter,
    RequestFailed,
    Resign,
    SnapshotChecked,
    SnapshotDamaged,
    SnapshotTaken,
    Timer,
    TimerFired,
    TimerKind,
    TransferLeadership,
    Unreachable,
    UpdateVoter,
    VoterChange,
)
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.core.shared_state import NodeState
from quorate.raft.core.validation import validate

__all__ = [
    "AddVoter",
    "AdoptVoters",
    "AppendFetched",
    "AppendLeaderChange",
    "AppendProposal",
    "AppendVoters",
    "ArmTimer",
    "BatchSpan",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "CancelTimer",
    "ChangeVoters",
    "CheckSnapshot",
    "CommitHeard",
    "Core",
    "CoreConfig",
    "Durable",
    "Effect",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "Event",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "Generation",
    "HighWatermarkAdvanced",
    "InstallSnapshot",
    "InvariantError",
    "LogStartMoved",
    "Message",
    "NodeState",
    "Persist",
    "Propose",
    "ReadIndex",
    "ReadIndexConfirmed",
    "ReadIndexFailed",
    "Received",
    "RejectProposal",
    "RemoveVoter",
    "Request",
    "RequestFailed",
    "Resign",
    "Response",
    "Role",
    "RoleChanged",
    "Send",
    "SendRecords",
    "SendSnapshotChunk",
    "SnapshotChecked",
    "SnapshotDamaged",
    "SnapshotTaken",
    "StoreSnapshotChunk",
    "Timer",
    "TimerFired",
    "TimerKind",
    "TransferEnded",
    "TransferLeadership",
    "Truncate",
    "Unreachable",
    "UpdateVoter",
    "VoteRequest",
    "VoteResponse",
    "VoterChange",
    "VotersChanged",
    "effects",
    "validate",
]
