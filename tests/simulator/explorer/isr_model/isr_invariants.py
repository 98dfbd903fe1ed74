"""The invariants of every state of the ISR protocol.

`committed` is what any leader's high watermark has ever exposed: consumers may have read it, and acks=all was
answered for it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quorate.broker.metadata.metadata_records import NO_LEADER, LeaderRecoveryState
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.replica.roles import LeaderState
from quorate.simulation.violations import SafetyViolation
from tests.simulator.explorer.isr_model.controller_steps import CommittedChange
from tests.simulator.explorer.isr_model.explored_broker import ExploredBroker
from tests.simulator.explorer.isr_model.memory_log import Values


class IsrPast(NamedTuple):
    """The facts about earlier states that the invariants ask for."""

    committed: Values = ()
    floor: int = 0
    """The leader epoch of the last unclean election. Records that leaders of older epochs commit afterwards
    are lost."""
    hurt: tuple[tuple[int, int], ...] = ()
    """(broker, life) of brokers whose disk has lost something in or after that life. The controller can't
    know it until a later life registers."""
    spoiled: frozenset[int] = frozenset()
    """Brokers that may have lost records that they had when they joined the ISR, or that an operator
    unregistered. The others must not count on them."""

    def damaged(self, broker_id: int, life: int) -> "IsrPast":
        """The broker's disk has lost something, or its directory is not there, in or after its last life."""
        hurt = tuple(sorted({**dict(self.hurt), broker_id: life}.items()))
        return self._replace(hurt=hurt, spoiled=self.spoiled | {broker_id})

    def given_up(self, broker_id: int) -> "IsrPast":
        """An operator gives up the broker."""
        return self._replace(spoiled=self.spoiled | {broker_id})

    def registered(self, broker_id: int, life: int) -> "IsrPast":
        """A life of the broker has registered. Losses from before it began are known, or have to be."""
        return self._replace(
            hurt=tuple(each for each in self.hurt if each[0] != broker_id or each[1] >= life)
        )


def sure(state: PartitionState) -> frozenset[int]:
    """Return the brokers that are sure to have all committed records, as the controller sees it."""
    return frozenset((*state.isr, *state.elr))


def moved(
    past: IsrPast, change: CommittedChange, machines: Mapping[int, ExploredBroker], *, unclean: bool
) -> IsrPast:
    """Take in a committed change of the partition. `unclean`: unclean elections are on. Raises
    `SafetyViolation`."""
    before, after = change
    members = sure(before)
    past = past._replace(spoiled=past.spoiled - (frozenset(after.isr) - members))
    if after.leader != NO_LEADER and after.leader not in after.isr:
        raise SafetyViolation(f"a leader is in its ISR: {after.leader} in {after.isr}")
    elected = after.leader != NO_LEADER and after.leader_epoch != before.leader_epoch
    uncleanly = (
        elected
        and after.leader_recovery_state is LeaderRecoveryState.RECOVERING
        and (after.leader not in members or before.leader_recovery_state is LeaderRecoveryState.RECOVERED)
    )
    # Who is no replica any more has handed over to those who are, as the next check shows.
    sound = (members - past.spoiled) & frozenset(after.replicas)
    if (uncleanly or not sure(after)) and sound and not unclean:
        raise SafetyViolation(
            "nobody who is sure to have every committed record is given up while its disk lives: "
            f"{sorted(sound)} of ISR {before.isr}, ELR {before.elr}; then leader {after.leader}, "
            f"ISR {after.isr}, ELR {after.elr}"
        )
    if uncleanly:
        values = machines[after.leader].values or ()
        past = past._replace(committed=_common(past.committed, values), floor=after.leader_epoch)
    return past


def exposed(past: IsrPast, machine: ExploredBroker) -> IsrPast:
    """Take in the records that a leader's high watermark exposes. Raises `SafetyViolation`."""
    process = machine.process
    if process is None or process.log is None or not isinstance(process.role, LeaderState):
        return past
    if process.role.leader_epoch < past.floor:
        return past
    shown = process.log.values[: process.log.high_watermark]
    if _common(shown, past.committed) != min(shown, past.committed, key=len):
        raise SafetyViolation(
            f"a record that was committed is never another one: leader {machine.id} exposes {_shown(shown)} "
            f"after {_shown(past.committed)}"
        )
    return past._replace(committed=shown) if len(shown) > len(past.committed) else past


def check(past: IsrPast, state: PartitionState, machines: Iterable[ExploredBroker]) -> None:
    """Check a state, with the newest metadata. Raises `SafetyViolation`."""
    leaders: dict[int, int] = {}
    logs: list[tuple[int, Values]] = []
    members, hurt = sure(state), dict(past.hurt)
    for machine in machines:
        process = machine.process
        if process is not None and isinstance(process.role, LeaderState):
            other = leaders.setdefault(process.role.leader_epoch, machine.id)
            if other != machine.id:
                raise SafetyViolation(
                    f"one leader in an epoch: {other} and {machine.id} in epoch {process.role.leader_epoch}"
                )
        values = machine.values
        if values:
            logs.append((machine.id, values))
        if machine.id in members and machine.id not in hurt:
            has = values or ()
            if has[: len(past.committed)] != past.committed:
                raise SafetyViolation(
                    "who is in the ISR or the ELR has every committed record: broker "
                    f"{machine.id} has {_shown(has)} of {_shown(past.committed)}; "
                    f"ISR {state.isr}, ELR {state.elr}"
                )
    for index, (one, first) in enumerate(logs):
        for two, second in logs[index + 1 :]:
            _match(one, first, two, second)


def _match(one: int, first: Values, two: int, second: Values) -> None:
    for offset in range(min(len(first), len(second)) - 1, -1, -1):
        if first[offset].epoch == second[offset].epoch:
            if first[: offset + 1] != second[: offset + 1]:
                raise SafetyViolation(
                    "logs are equal below an equal epoch: "
                    f"{one} has {_shown(first)}, {two} has {_shown(second)}"
                )
            return


def _common(one: Values, two: Values) -> Values:
    for index, (first, second) in enumerate(zip(one, two, strict=False)):
        if first != second:
            return one[:index]
    return min(one, two, key=len)


def _shown(values: Values) -> str:
    return "[" + " ".join(f"{each.value}:e{each.epoch}" for each in values) + "]"
