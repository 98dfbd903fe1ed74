"""All nodes together: what may happen next in a state, and what it comes to.

A state is a short tuple of small numbers: the budgets left, the past, each machine, and the messages under
way (a multiset, so sorted). The numbers are names for things that are kept once, in tables. What a machine
makes of an event is computed once per (machine, event), so most transitions are a few look-ups.

What is left out: answers that nobody waits for, which must do nothing (`World.heeded_answers` sees to that).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from quorate.raft.core.core import Core
from quorate.raft.core.effects import Role
from quorate.raft.core.events import (
    AddVoter,
    ChangeVoters,
    Event,
    LogStartMoved,
    Propose,
    ReadBarrier,
    Received,
    RemoveVoter,
    RequestFailed,
    Resign,
    SnapshotChecked,
    SnapshotDamaged,
    SnapshotTaken,
    TimerFired,
    TimerKind,
    TransferLeadership,
    Unreachable,
)
from quorate.raft.core.messages import Request, Response
from quorate.raft.core.types import (
    CoreConfig,
    Endpoint,
    EpochEnd,
    NodeId,
    ReplicaKey,
    SnapshotId,
    Voter,
    VoterSet,
)
from quorate.simulation.core_node import CoreFactory
from quorate.simulation.explorer import canonical, machine, promises
from quorate.simulation.explorer.bounds import Bound, Budget
from quorate.simulation.explorer.coverage import Coverage
from quorate.simulation.explorer.disk import Disk, History, Snapshot, end_of, up_to
from quorate.simulation.explorer.machine import Half, Letter, Machine, Outcome, Sight
from quorate.simulation.explorer.promises import Past
from quorate.simulation.explorer.tables import Table
from quorate.simulation.violations import SafetyViolation

CLUSTER_ID: Final = "explored"
CONFIG: Final = CoreConfig()
DIRECTORY: Final = "directory"
"""Of every node: directories tell a node's disks apart, and nobody changes its disk here."""

State = tuple[int, ...]
"""(budgets, past, machine of each node..., messages under way in order...), all by number."""

FREE: Final = -1
_REQUEST: Final = -2
"""The cost of giving a request up: nothing if it is lost, else a timeout."""
_MACHINES: Final = 2
"""Where they begin in a State."""

TIMER_COST: Final = {
    TimerKind.ELECTION: Budget.TIMEOUTS,
    TimerKind.FETCH: Budget.TIMEOUTS,
    TimerKind.CHECK_QUORUM: Budget.TIMEOUTS,
    TimerKind.TRANSFER: Budget.TIMEOUTS,
    TimerKind.BEGIN_QUORUM: Budget.TICKS,
    TimerKind.FETCH_WAIT: Budget.TICKS,
    TimerKind.BACKOFF: FREE,
}


@dataclass(frozen=True, slots=True)
class Did:
    """What happened on the way from one state to the next: enough to tell, and to do it again."""

    what: str
    """deliver, repeat, lose, step, crash, power or start."""
    node: int
    """Index of the node it happened to; of a lost message, of its destination."""
    event: int = -1
    """Number of the event, or of the message."""
    keep: int = -1
    """For a power loss: how many batches remained."""
    half: int = -1
    """Crashed in the middle of it: before which thing would have been stored."""


@dataclass(slots=True)
class Move:
    """What a machine makes of an event, in numbers."""

    machine: int
    sent: tuple[int, ...]
    sights: tuple[Sight, ...]
    forgotten: tuple[NodeId, ...]
    halves: tuple[tuple[Disk, tuple[int, ...], tuple[Sight, ...]], ...]
    broken: str


class Broken(Exception):
    """A promise was broken by going on from a state."""

    def __init__(self, did: Did, promise: str) -> None:
        super().__init__(promise)
        self.did = did
        self.promise = promise


class World:
    """The transition system of one `Bound`. `core` is the shipped one, or a broken one for a test of the
    tests."""

    def __init__(self, bound: Bound, *, core: CoreFactory = Core, reduce: bool = True) -> None:
        self.bound = bound
        self.reduce = reduce
        """Leave out answers that nobody waits for."""
        self._core = core
        self.names = tuple(NodeId(number) for number in range(1, bound.voters + bound.observers + 1))
        self._index = {each: index for index, each in enumerate(self.names)}
        self.static = VoterSet(
            tuple(Voter(ReplicaKey(each), _endpoint(each)) for each in self.names[: bound.voters])
        )
        self.coverage = Coverage()
        self.cut = 0
        """Transitions that led out of bounds."""

        self.machines: Table[Machine] = Table(Machine.identity)
        self.letters: Table[Letter] = Table(lambda letter: letter)
        self.events: Table[Event] = Table(lambda event: event)
        self.pasts: Table[Past] = Table(lambda past: past)
        self.budgets: Table[tuple[int, ...]] = Table(lambda counts: counts)

        self._received: dict[tuple[int, int], Move] = {}
        self._stepped: dict[tuple[int, int], Move] = {}
        self._started: dict[int, Move] = {}
        self._enabled: dict[int, tuple[tuple[int, int], ...]] = {}
        self._spent: dict[tuple[int, int], int] = {}
        self._stale: dict[int, int] = {}
        self._forgot: dict[tuple[int, NodeId], int] = {}
        self._crashed: dict[tuple[int, int], int] = {}
        self._matched: dict[tuple[int, int], bool] = {}
        self._histories: Table[History] = Table(lambda history: history)
        self._history_of: dict[int, int] = {}
        self._parked: dict[int, tuple[NodeId, ...]] = {}
        self._heights: dict[int, tuple[int, int]] = {}

        self._budgets_at_first = bound.budgets.counts()
        self.epoch_max = self.batches_max = self.in_flight_max = 10**6

    # --- the beginning ---

    def down(self) -> State:
        """Everybody is down, with empty disks; and no bound counts yet."""
        self.epoch_max = self.batches_max = self.in_flight_max = 10**6
        machines = tuple(
            self.machines.number(Machine(ReplicaKey(each, DIRECTORY), None, Disk())) for each in self.names
        )
        return (self.budgets.number(self._budgets_at_first), self.pasts.number(Past()), *machines)

    def limit(self, state: State) -> None:
        """From here on the bound counts; what the situation needed is not part of it."""
        self.epoch_max = self.bound.epochs + max(m.disk.election.epoch for m in self.machines_of(state))
        self.batches_max = self.bound.batches + max(len(m.disk.history) for m in self.machines_of(state))
        self.in_flight_max = self.bound.in_flight

    def machines_of(self, state: State) -> list[Machine]:
        return [self.machines[number] for number in state[_MACHINES : _MACHINES + len(self.names)]]

    def machine_of(self, state: State, node: int) -> int:
        """Its number. Nodes by index."""
        return state[_MACHINES + node]

    def letters_of(self, state: State) -> list[tuple[int, Letter]]:
        return [(number, self.letters[number]) for number in state[_MACHINES + len(self.names) :]]

    def voter(self, node: NodeId) -> Voter:
        """With its directory, as the log names it."""
        return Voter(ReplicaKey(node, DIRECTORY), _endpoint(node))

    def _make(self, each: Machine) -> Core:
        core = self._core(
            config=CONFIG,
            cluster_id=CLUSTER_ID,
            key=each.key,
            endpoint=_endpoint(each.key.id),
            voters=self.static,
            election=each.disk.election,
            log=each.disk.recovered(),
        )
        canonical.fresh(core)
        return core

    def happens(self, state: State, node: int, event: Event) -> State:
        """That one thing, whatever the budgets. For situations. Raises Broken."""
        number = self.events.number(event)
        move = self.step(state[_MACHINES + node], number)
        return next(self._went(Did("step", node, number), state, node, move, state[0], taken=None))[1]

    def arrives(self, state: State, letter: int) -> State:
        """For situations. Raises Broken."""
        node = self._destination(letter)
        move = self.receive(state[_MACHINES + node], letter)
        return next(self._went(Did("deliver", node, letter), state, node, move, state[0], taken=letter))[1]

    def starts(self, state: State, node: int) -> State:
        """For situations. Raises Broken."""
        move = self.start(state[_MACHINES + node])
        return next(self._went(Did("start", node), state, node, move, state[0], taken=None))[1]

    def falls(self, state: State, node: int) -> State:
        """A process crash. For situations."""
        number = state[_MACHINES + node]
        down = self._crash(number, len(self.machines[number].disk.history))
        return self._fallen(state, node, down, state[0])

    def vanishes(self, state: State, letter: int) -> State:
        """The message is lost. For situations."""
        return self._without(state, letter, state[0])

    # --- what may happen next ---

    def successors(self, state: State) -> Iterator[tuple[Did, State]]:
        """Every state that one thing can lead to, some more than once. Raises Broken."""
        nodes = len(self.names)
        budgets = state[0]
        left = self.budgets[budgets]
        machines = state[_MACHINES : _MACHINES + nodes]
        letters = state[_MACHINES + nodes :]
        can_crash = left[Budget.CRASHES] > 0
        can_lose_power = left[Budget.POWER_LOSSES] > 0

        before = -1
        for letter in letters:
            if letter == before:
                continue
            before = letter
            node = self._destination(letter)
            number = machines[node]
            if left[Budget.LOSSES]:
                after = self._without(state, letter, self._spend(budgets, Budget.LOSSES))
                yield Did("lose", node, letter), after
            if self.machines[number].core is None:
                continue
            move = self.receive(number, letter)
            did = Did("deliver", node, letter)
            yield from self._went(did, state, node, move, budgets, taken=letter)
            if left[Budget.DUPLICATES]:
                spent = self._spend(budgets, Budget.DUPLICATES)
                yield from self._went(Did("repeat", node, letter), state, node, move, spent, taken=None)
            if can_crash and move.halves:
                spent = self._spend(budgets, Budget.CRASHES)
                yield from self._halves(did, state, node, move, spent, taken=letter)

        for node in range(nodes):
            number = machines[node]
            each = self.machines[number]
            if each.core is None:
                move = self.start(number)
                yield from self._went(Did("start", node), state, node, move, budgets, taken=None)
                if can_crash and move.halves:
                    spent = self._spend(budgets, Budget.CRASHES)
                    yield from self._halves(Did("start", node), state, node, move, spent, taken=None)
                continue
            for event, cost in self.enabled(number, left):
                if cost == _REQUEST:
                    cost = FREE if self._is_lost(state, node, event) else Budget.TIMEOUTS
                if cost != FREE and not left[cost]:
                    continue
                spent = budgets if cost == FREE else self._spend(budgets, cost)
                did = Did("step", node, event)
                move = self.step(number, event)
                yield from self._went(did, state, node, move, spent, taken=None)
                if can_crash and move.halves and spent == budgets:
                    spent = self._spend(spent, Budget.CRASHES)
                    yield from self._halves(did, state, node, move, spent, taken=None)
            if can_crash:
                down = self._crash(number, len(each.disk.history))
                spent = self._spend(budgets, Budget.CRASHES)
                yield Did("crash", node), self._fallen(state, node, down, spent)
            if can_lose_power:
                disk = each.disk
                spent = self._spend(budgets, Budget.POWER_LOSSES)
                for keep in range(len(up_to(disk.history, disk.synced)), len(disk.history)):
                    down = self._crash(number, keep)
                    yield Did("power", node, keep=keep), self._fallen(state, node, down, spent)

    def enabled(self, number: int, left: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """(event, cost) of what may happen to a machine by itself."""
        yield from self.own_events(number)
        if self.machines[number].up.role is Role.LEADER:
            if left[Budget.APPENDS]:
                yield self.events.number(Propose(self._used(left, Budget.APPENDS), 1)), Budget.APPENDS
            if left[Budget.READS]:
                yield self.events.number(ReadBarrier(self._used(left, Budget.READS) + 1)), Budget.READS
            if left[Budget.VOTER_CHANGES]:
                request = self._used(left, Budget.VOTER_CHANGES)
                for change in self._changes(self.machines[number].up):
                    yield self.events.number(ChangeVoters(request, change)), Budget.VOTER_CHANGES

    def own_events(self, number: int) -> tuple[tuple[int, int], ...]:
        """As `enabled`, but for what is asked of a leader."""
        known = self._enabled.get(number)
        if known is None:
            known = tuple(
                (self.events.number(event), cost) for event, cost in self._events_of(self.machines[number])
            )
            self._enabled[number] = known
            self._check_refusals(number)
        return known

    def _check_refusals(self, number: int) -> None:
        """What only a leader, or only a follower, does changes nothing elsewhere. Raises Broken."""
        each = self.machines[number]
        role = each.up.role
        refused = [] if role is Role.FOLLOWER else [Unreachable(self.names[0])]
        node = self._index[each.key.id]
        for event in refused if role is Role.LEADER else [*refused, *_LEADERS_ONLY]:
            did = Did("step", node, self.events.number(event))
            move = self.step(number, did.event)
            if move.broken or move.machine != number or move.sent:
                raise Broken(did, move.broken or f"as {role.value} a node does not heed {event}")

    def heeded_answers(self) -> Iterator[tuple[int, Did]]:
        """Machines that heed an answer which they don't wait for. There must be none: it is what makes it
        right to leave such answers out. To be asked when all states are known."""
        stale = [
            (number, self._destination(number))
            for number in range(len(self.letters))
            if _is_stale_answer(self.letters[number])
        ]
        for number in range(len(self.machines)):
            each = self.machines[number]
            if each.core is None:
                continue
            node = self._index[each.key.id]
            for letter, destination in stale:
                if destination == node:
                    move = self.receive(number, letter)
                    if move.broken or move.machine != number or move.sent or move.sights:
                        yield number, Did("deliver", node, letter)

    def _used(self, left: tuple[int, ...], budget: Budget) -> int:
        return self._budgets_at_first[budget] - left[budget]

    def _changes(self, core: Core) -> Iterator[AddVoter | RemoveVoter]:
        for voter in core.voters:
            yield RemoveVoter(voter.key)
        for each in self.names:
            if each not in core.voters:
                yield AddVoter(self.voter(each))

    def _events_of(self, each: Machine) -> Iterator[tuple[Event, int]]:
        core = each.up
        for timer in sorted(each.timers, key=lambda timer: (timer.kind.value, timer.node or 0)):
            yield TimerFired(timer), TIMER_COST[timer.kind]
        for sync in each.syncs:
            yield sync, FREE
        for peer in canonical.asked(core):
            yield RequestFailed(peer, canonical.CURRENT), _REQUEST
        leader = core.leader
        if core.role is Role.FOLLOWER and leader is not None:
            yield Unreachable(leader), Budget.TIMEOUTS
        if core.role is Role.LEADER:
            yield Resign(), Budget.RESIGNATIONS
            for peer in core.voters.ids:
                if peer != core.node_id:
                    yield TransferLeadership(peer), Budget.TRANSFERS
        if each.checking is not None and each.partial is not None:
            voters = promises.voters_in(each.partial.history, VoterSet(()))
            yield SnapshotChecked(each.checking, voters if len(voters) else None), FREE
            yield SnapshotDamaged(each.checking), Budget.DAMAGES
        else:
            yield from self._snapshots_of(each)

    def _snapshots_of(self, each: Machine) -> Iterator[tuple[Event, int]]:
        disk = each.disk
        committed = up_to(disk.history, min(each.up.high_watermark or 0, disk.synced))
        latest = disk.snapshots[-1] if disk.snapshots else None
        if committed and (latest is None or latest.id.end_offset < end_of(committed)):
            taken = SnapshotId(end_of(committed), committed[-1].epoch)
            yield SnapshotTaken(taken), Budget.SNAPSHOTS
        if latest is not None and latest.id.end_offset > disk.log_start_offset:
            start = EpochEnd(latest.id.epoch, latest.id.end_offset)
            yield LogStartMoved(start), Budget.SNAPSHOTS

    def _is_lost(self, state: State, node: int, event: int) -> bool:
        """Nothing can come of this request any more, so that it is only a matter of time."""
        failed = self.events[event]
        if not isinstance(failed, RequestFailed):
            raise TypeError(f"{failed} is no failed request")
        here, there = self.names[node], failed.destination
        for _, letter in self.letters_of(state):
            message = letter.message
            if message.correlation == canonical.CURRENT:
                ends = (message.source, message.destination)
                if ends == ((here, there) if isinstance(message, Request) else (there, here)):
                    return False
        return here not in self._parked_at(state[_MACHINES + self._index[there]])

    # --- what a machine makes of it ---

    def receive(self, number: int, letter: int) -> Move:
        move = self._received.get((number, letter))
        if move is None:
            it = self.letters[letter]
            move = self._moved(number, Received(it.message), it)
            self._received[number, letter] = move
        return move

    def step(self, number: int, event: int) -> Move:
        move = self._stepped.get((number, event))
        if move is None:
            move = self._moved(number, self.events[event], None)
            self._stepped[number, event] = move
        return move

    def start(self, number: int) -> Move:
        move = self._started.get(number)
        if move is None:
            move = self._in_numbers(machine.start(self.machines[number], self._make))
            self._started[number] = move
        return move

    def _moved(self, number: int, event: Event, letter: Letter | None) -> Move:
        each = self.machines[number]
        self.coverage.saw(each.up.role, event)
        if isinstance(event, TimerFired):
            each = replace(each, timers=each.timers - {event.timer})
        elif isinstance(event, SnapshotTaken):
            snapshot = Snapshot(event.snapshot, up_to(each.disk.history, event.snapshot.end_offset))
            each = replace(each, disk=replace(each.disk, snapshots=(*each.disk.snapshots, snapshot)))
        elif isinstance(event, LogStartMoved):
            each = replace(each, disk=replace(each.disk, log_start_offset=event.start.end_offset))
        return self._in_numbers(machine.step(each, event, letter, fetch_batches=self.bound.fetch_batches))

    def _in_numbers(self, outcome: Outcome) -> Move:
        if outcome.broken:
            return Move(-1, (), (), (), (), outcome.broken)
        return Move(
            self.machines.number(outcome.machine),
            tuple(self.letters.number(letter) for letter in outcome.sent),
            outcome.sights,
            outcome.forgotten,
            tuple(self._half(half) for half in outcome.halves),
            "",
        )

    def _half(self, half: Half) -> tuple[Disk, tuple[int, ...], tuple[Sight, ...]]:
        """Nobody waits for the answers to what a crashed node asked."""
        sent = (
            self._stale_number(self.letters.number(letter))
            if isinstance(letter.message, Request)
            else self.letters.number(letter)
            for letter in half.sent
        )
        return half.disk, tuple(sent), half.sights

    # --- what it comes to ---

    def _went(
        self, did: Did, state: State, node: int, move: Move, budgets: int, *, taken: int | None
    ) -> Iterator[tuple[Did, State]]:
        """One state, or none if it is out of bounds."""
        if move.broken:
            raise Broken(did, move.broken)
        nodes = len(self.names)
        letters = list(state[_MACHINES + nodes :])
        if taken is not None:
            letters.remove(taken)
        machines = list(state[_MACHINES : _MACHINES + nodes])
        changed = machines[node] != move.machine
        machines[node] = move.machine
        if move.forgotten:
            letters = self._forget(node, move.forgotten, letters, machines)
        if move.sent:
            letters.extend(move.sent)
        if len(letters) and (move.sent or move.forgotten):
            letters = self._settled(letters)
        if changed:
            epoch, height = self._height(move.machine)
            if epoch > self.epoch_max or height > self.batches_max:
                self.cut += 1
                return
        if len(letters) > self.in_flight_max:
            self.cut += 1
            return
        past = state[1]
        if did.what == "step":
            event = self.events[did.event]
            if isinstance(event, ReadBarrier):
                asked = promises.asked_to_read(self.pasts[past], self.names[node], event.barrier)
                past = self.pasts.number(asked)
        past = self._see(did, past, node, move.sights, machines, state[_MACHINES + node])
        letters.sort()
        yield did, (budgets, past, *machines, *letters)

    def _halves(
        self, did: Did, state: State, node: int, move: Move, budgets: int, *, taken: int | None
    ) -> Iterator[tuple[Did, State]]:
        """It crashed in the middle of the step."""
        nodes = len(self.names)
        number = state[_MACHINES + node]
        for half, (disk, sent, sights) in enumerate(move.halves):
            here = Did(did.what, did.node, did.event, half=half)
            machines = list(state[_MACHINES : _MACHINES + nodes])
            disk = replace(disk, synced=disk.end_offset)
            machines[node] = self.machines.number(self.machines[number].down(disk))
            past = self._see(here, state[1], node, sights, machines, number)
            letters = list(state[_MACHINES + nodes :])
            if taken is not None:
                letters.remove(taken)
            fallen = self._fallen((budgets, past, *machines, *letters, *sent), node, machines[node], budgets)
            if len(fallen) - _MACHINES - nodes > self.in_flight_max:
                self.cut += 1
                continue
            epoch, height = self._height(machines[node])
            if epoch > self.epoch_max or height > self.batches_max:
                self.cut += 1
                continue
            yield here, fallen

    def _fallen(self, state: State, node: int, down: int, budgets: int) -> State:
        """The node is down: its connections are gone, and with them all answers on the way to it."""
        nodes = len(self.names)
        machines = list(state[_MACHINES : _MACHINES + nodes])
        machines[node] = down
        others = tuple(each for index, each in enumerate(self.names) if index != node)
        letters = self._forget(node, others, list(state[_MACHINES + nodes :]), machines)
        here = self.names[node]
        kept = []
        for letter in letters:
            message = self.letters[letter].message
            if message.destination != here or isinstance(message, Request):
                kept.append(letter)
        kept.sort()
        past = self.pasts.number(promises.crashed(self.pasts[state[1]], here))
        return (budgets, past, *machines, *kept)

    def _without(self, state: State, letter: int, budgets: int) -> State:
        letters = list(state[_MACHINES + len(self.names) :])
        letters.remove(letter)
        return (budgets, *state[1 : _MACHINES + len(self.names)], *letters)

    def _see(
        self,
        did: Did,
        past: int,
        node: int,
        sights: tuple[Sight, ...],
        machines: list[int],
        before: int,
    ) -> int:
        number = machines[node]
        changed = self._history(number) != self._history(before)
        moved = self._height(number)[0] != self._height(before)[0]
        if not (sights or changed or moved):
            return past
        now = self.pasts[past]
        things = [self.machines[each] for each in machines]
        try:
            if sights:
                now = promises.seen(now, node, sights, things, self.static)
        except SafetyViolation as violation:
            raise Broken(did, str(violation)) from violation
        if changed:
            for other in machines:
                if other != number and not self._logs_match(number, other):
                    one, two = self.machines[number], self.machines[other]
                    raise Broken(
                        did,
                        f"logs match up to where their epochs do: node {one.key.id} {one.disk.history}, "
                        f"node {two.key.id} {two.disk.history}",
                    )
        return self.pasts.number(promises.pruned(now, things))

    def _logs_match(self, one: int, other: int) -> bool:
        pair = self._history(one), self._history(other)
        matched = self._matched.get(pair)
        if matched is None:
            matched = promises.logs_match(self._histories[pair[0]], self._histories[pair[1]])
            self._matched[pair] = matched
        return matched

    # --- messages ---

    def _destination(self, letter: int) -> int:
        return self._index[self.letters[letter].message.destination]

    def _settled(self, letters: list[int]) -> list[int]:
        """Without the answers that nobody waits for, which do nothing (see `heeded_answers`)."""
        if not self.reduce:
            return letters
        return [letter for letter in letters if not _is_stale_answer(self.letters[letter])]

    def _forget(
        self, node: int, peers: tuple[NodeId, ...], letters: list[int], machines: list[int]
    ) -> list[int]:
        """The node waits no more for what it asked these peers."""
        here = self.names[node]
        after = []
        for letter in letters:
            message = self.letters[letter].message
            mine = (
                message.source == here and message.destination in peers
                if isinstance(message, Request)
                else message.destination == here and message.source in peers
            )
            after.append(self._stale_number(letter) if mine else letter)
        for peer in peers:
            index = self._index.get(peer)
            if index is not None and here in self._parked_at(machines[index]):
                machines[index] = self._forgotten(machines[index], here)
        return after

    def _stale_number(self, letter: int) -> int:
        stale = self._stale.get(letter)
        if stale is None:
            it = self.letters[letter]
            stale = self.letters.number(replace(it, message=replace(it.message, correlation=canonical.STALE)))
            self._stale[letter] = stale
        return stale

    def _parked_at(self, number: int) -> tuple[NodeId, ...]:
        parked = self._parked.get(number)
        if parked is None:
            core = self.machines[number].core
            parked = canonical.parked(core) if core is not None else ()
            self._parked[number] = parked
        return parked

    def _forgotten(self, number: int, source: NodeId) -> int:
        after = self._forgot.get((number, source))
        if after is None:
            each = self.machines[number]
            after = self.machines.number(replace(each, core=canonical.forget(each.up, source)))
            self._forgot[number, source] = after
        return after

    # --- look-ups ---

    def _spend(self, budgets: int, budget: int) -> int:
        after = self._spent.get((budgets, budget))
        if after is None:
            counts = list(self.budgets[budgets])
            counts[budget] -= 1
            after = self.budgets.number(tuple(counts))
            self._spent[budgets, budget] = after
        return after

    def _crash(self, number: int, keep: int) -> int:
        down = self._crashed.get((number, keep))
        if down is None:
            each = self.machines[number]
            disk = each.disk
            if keep < len(disk.history):
                disk = replace(disk, history=disk.history[:keep])
            # What is left is synced before it counts, so how much of it was synced before means nothing.
            down = self.machines.number(each.down(replace(disk, synced=disk.end_offset)))
            self._crashed[number, keep] = down
        return down

    def _history(self, number: int) -> int:
        history = self._history_of.get(number)
        if history is None:
            history = self._histories.number(self.machines[number].disk.history)
            self._history_of[number] = history
        return history

    def _height(self, number: int) -> tuple[int, int]:
        height = self._heights.get(number)
        if height is None:
            disk = self.machines[number].disk
            height = disk.election.epoch, len(disk.history)
            self._heights[number] = height
        return height


_LEADERS_ONLY: Final[tuple[Event, ...]] = (
    Propose(0, 1),
    Resign(),
    TransferLeadership(NodeId(1)),
    ReadBarrier(1),
    ChangeVoters(0, RemoveVoter(ReplicaKey(NodeId(1), DIRECTORY))),
)


def _is_stale_answer(letter: Letter) -> bool:
    message = letter.message
    return isinstance(message, Response) and message.correlation == canonical.STALE


def _endpoint(node: NodeId) -> Endpoint:
    return Endpoint(f"node-{node}", 9093)
