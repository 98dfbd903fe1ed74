"""The invariants of simulated cores after every step, by the names of the TLA+ specifications of KRaft
(docs/reference/kraft-rules.md#invariants) and of the Raft paper.

| invariant | checked |
| --- | --- |
| NoIllegalState | the core itself raises `InvariantError` at an impossible transition |
| ElectionSafety, NeverTwoLeadersInSameEpoch | whenever a node leads or learns of a leader, `learned_leader` |
| a vote is given once in an epoch | when it is given, across restarts, `voted` |
| durable before said | when a message leaves, `EffectInterpreter` |
| LogMatching, NoLogDivergence | below the high watermarks: whenever one moves, `high_watermark_moved`; |
| | of whole logs (Raft section 5.3): at the end of a run, `check_logs` |
| log start <= snapshot end <= high watermark <= log end, and so on | after each step, `stepped` |
| high watermark: never goes back, on a majority's devices, of the leader's epoch | `high_watermark_moved` |
| LeaderCompleteness, LeaderHasAllAckedValues | when a node begins to lead: what older epochs committed |
| Durability, AckedValueNotLost | when records are cut, and after each loss, `check_durability` |
| ValidRolesAndStates, StatesMatchRoles, ValidVotesRecv | after each step, `stepped` |
| a read sees what was committed before it | when its round is confirmed, `read_index_confirmed` |
| ValuesEventuallyAcked, EventuallyLeaderElected, | at the end |
| NotStuckInProspective, ReconfigurationNotStuck | of a run, when all is healed: `core_run` |
"""

from collections.abc import Callable, Mapping

from quorate.raft.core import (
    Core,
    InvariantError,
    Message,
    Role,
    RoleChanged,
    VoteResponse,
    validate,
)
from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch, NodeId, Offset, ReplicaKey, VoterSet
from tests.simulator.core.core_node import CoreNode, CoreRecord

_VOTERS_ONLY = (Role.PROSPECTIVE, Role.CANDIDATE, Role.LEADER)


class Invariants:
    """Watches the nodes of one world. Every method raises `SafetyViolation`."""

    def __init__(
        self,
        nodes: Mapping[NodeId, CoreNode],
        *,
        configured: VoterSet,
        is_lost: Callable[[ReplicaKey], bool],
    ) -> None:
        """`configured`: the voters where the log has none. `is_lost`: whether a replica's data is lost, so
        that it gets the benefit of the doubt."""
        self._nodes = nodes
        self._configured = configured
        self._is_lost = is_lost
        self.committed: list[CoreRecord] = []
        """The longest prefix that any node ever called committed."""
        self._committed_in: list[tuple[Epoch, Offset]] = []
        """The epoch and the end of each growth of the committed log."""
        self.last_event: object = "the start"
        self._leaders: dict[Epoch, NodeId] = {}
        self._votes: dict[tuple[ReplicaKey, Epoch], ReplicaKey] = {}
        self._read_rounds: dict[tuple[NodeId, int, int], int] = {}
        """The committed end when each read index was requested, by node and incarnation."""

    def require(self, condition: bool, invariant: str, machine: CoreNode) -> None:
        if not condition:
            raise self.violation(invariant, machine)

    def violation(self, invariant: str, machine: CoreNode) -> SafetyViolation:
        return SafetyViolation(f"{invariant}: node {machine.id}, after {self.last_event}; {machine}")

    def stepped(self, machine: CoreNode, *, voters_changed: bool = True) -> None:
        """All effects of a step are done. `voters_changed`: whether there may be other voters in the log."""
        core, disk = machine.up, machine.disk
        try:
            validate(core)
        except InvariantError as error:
            raise self.violation(str(error), machine) from error
        end = len(disk.entries)
        if core.log_end_offset != end:
            raise self.violation("the core knows where its log ends", machine)
        if core.log_end_epoch != (disk.entries[-1].epoch if end else 0):
            raise self.violation("the core knows its last epoch", machine)
        if core.log_start_offset != disk.log_start_offset:
            raise self.violation("the core knows where its log starts", machine)
        if voters_changed and core.voters != (disk.voters_below(end, disk.entries) or self._configured):
            raise self.violation("the last voters in the log count", machine)
        if core.durable_end_offset > disk.synced:
            raise self.violation("what the core calls durable is", machine)
        if core.election is not disk.election and core.election != disk.election:
            raise self.violation("the vote is stored", machine)
        self._check_role_and_state(machine, core)

    def _check_role_and_state(self, machine: CoreNode, core: Core) -> None:
        role, node, leader = core.role, machine.id, core.leader
        if role is Role.LEADER:
            ok = leader == node == core.election.leader
        elif role is Role.FOLLOWER:
            ok = leader is not None and leader != node
        elif role is Role.CANDIDATE:
            ok = leader is None and core.voted is not None and core.voted.matches(machine.key)
        else:
            ok = leader != node
        if not ok:
            raise self.violation(f"ValidRolesAndStates: a {role.value} does not say {leader} leads", machine)
        if role in _VOTERS_ONLY and not core.is_voter and not core.has_dynamic_voters:
            raise self.violation(f"StatesMatchRoles: an observer is no {role.value}", machine)
        if role is not Role.LEADER and core.is_voter and not machine.timers and len(core.voters) > 1:
            raise self.violation(f"a {role.value} voter waits for nothing", machine)

    def said(self, machine: CoreNode, message: Message) -> None:
        """Note a message that leaves. Its interpreter has checked that the data on which it depends is
        durable."""
        voted = machine.disk.election.voted
        if isinstance(message, VoteResponse) and message.granted and not message.pre_vote and voted:
            self.voted(machine, message.epoch, voted)

    def voted(self, machine: CoreNode, epoch: Epoch, candidate: ReplicaKey) -> None:
        given = self._votes.setdefault((machine.key, epoch), candidate)
        if given != candidate:
            raise self.violation(f"one vote in epoch {epoch}, but {given} had it before", machine)

    def learned_leader(self, machine: CoreNode, epoch: Epoch, node: NodeId) -> None:
        leader = self._leaders.setdefault(epoch, node)
        if leader != node:
            raise self.violation(f"one leader in epoch {epoch}, not {leader} too", machine)

    def role_changed(self, machine: CoreNode, changed: RoleChanged) -> None:
        if changed.role is Role.CANDIDATE:
            self.voted(machine, changed.epoch, machine.key)
        if changed.leader is not None:
            self.learned_leader(machine, changed.epoch, changed.leader)
        if changed.role is Role.LEADER:
            self._check_completeness(machine)

    def _check_completeness(self, machine: CoreNode) -> None:
        # A leader elected late, by votes from before others moved on, may lack later commits.
        epoch = machine.up.epoch
        end = max((end for each, end in self._committed_in if each < epoch), default=0)
        if machine.disk.entries[:end] != self.committed[:end]:
            raise self.violation("LeaderCompleteness: a leader has every committed record", machine)

    def cut(self, machine: CoreNode, end_offset: Offset) -> None:
        """The log is about to be truncated."""
        cut = zip(machine.disk.entries[end_offset:], self.committed[end_offset:], strict=False)
        if any(entry == committed for entry, committed in cut):
            raise self.violation("no committed record is cut", machine)

    def high_watermark_moved(self, machine: CoreNode, high_watermark: Offset) -> None:
        before = machine.high_watermark
        if before is not None and high_watermark <= before:
            raise self.violation("the high watermark never goes back", machine)
        machine.high_watermark = high_watermark
        entries, committed = machine.disk.entries, self.committed
        if high_watermark > len(entries):
            raise self.violation("high watermark <= log end", machine)
        start = before if before is not None else 0
        shared = min(high_watermark, len(committed))
        if entries[start:shared] != committed[start:shared]:
            raise self.violation("LogMatching: a committed record never changes", machine)
        if high_watermark > len(committed):
            self._check_majority(machine, Offset(high_watermark - 1))
            committed.extend(entries[len(committed) : high_watermark])
            self._committed_in.append((machine.up.epoch, high_watermark))

    def _check_majority(self, machine: CoreNode, last: Offset) -> None:
        core, entry = machine.up, machine.disk.entries[last]
        voters = core.voters
        holders = [
            voter.key.id
            for voter in voters
            if self._is_lost(voter.key)
            or (
                (disk := self._nodes[voter.key.id].disk).synced > last
                and disk.entries[last] == entry
                and voter.key.matches(self._nodes[voter.key.id].key)
            )
        ]
        if len(holders) < voters.majority:
            raise self.violation(
                f"a majority has stored what is committed, not only {holders} offset {last}", machine
            )
        if core.role is Role.LEADER and entry.epoch != core.epoch:
            raise self.violation(
                "a leader commits older epochs' records only with one of its own (Raft section 5.4.2)",
                machine,
            )

    def check_durability(self, machine: CoreNode) -> None:
        """`machine` has just lost something: everything committed is on some voter's device."""
        end = len(self.committed)
        if end and not any(
            node.disk.synced >= end and node.disk.entries[end - 1] == self.committed[-1]
            for node in self._nodes.values()
        ):
            raise self.violation("Durability: an acknowledged record is not lost", machine)

    def read_index_asked(self, machine: CoreNode, read_round: int) -> None:
        self._read_rounds[machine.id, machine.incarnation, read_round] = len(self.committed)

    def read_index_confirmed(self, machine: CoreNode, read_round: int, read_index: Offset) -> None:
        committed = self._read_rounds[machine.id, machine.incarnation, read_round]
        if read_index < committed:
            raise self.violation(f"a read sees all {committed} committed before it", machine)

    def check_logs(self) -> None:
        """Log matching (Raft section 5.3): equal epochs at an offset mean equal logs up to it. Compares
        all pairs."""
        machines = list(self._nodes.values())
        for index, one in enumerate(machines):
            for other in machines[index + 1 :]:
                shared = min(len(one.disk.entries), len(other.disk.entries))
                for offset in range(shared - 1, -1, -1):
                    if one.disk.entries[offset].epoch == other.disk.entries[offset].epoch:
                        if one.disk.entries[: offset + 1] != other.disk.entries[: offset + 1]:
                            raise self.violation(f"logs match up to {offset}, as in node {other.id}", one)
                        break
