"""Messages under way, and their fate when their sender stops waiting."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from quorate.raft.core import Core, Request, RequestFailed, Response
from quorate.types import NodeId
from tests.simulator.core.core_node import CoreFactory
from tests.simulator.explorer.core_model import canonical
from tests.simulator.explorer.core_model.actions import Action, Transitions
from tests.simulator.explorer.core_model.bounds import Bound
from tests.simulator.explorer.core_model.machine import Packet
from tests.simulator.explorer.model import Memo


class InFlight(Transitions):
    """`reduce`: leave out answers that no node waits for."""

    def __init__(self, bound: Bound, *, core: CoreFactory = Core, reduce: bool = True) -> None:
        super().__init__(bound, core=core)
        self.reduce = reduce
        self._forgotten = Memo(self._forget)
        """The machine of (machine, node) where the Fetch of that node which is parked there is stale."""
        self._parked_at = Memo(self._find_parked)
        """The nodes whose requests in flight are parked at a machine."""

    def destination(self, packet: int) -> int:
        return self._index[self.packets[packet].message.destination]

    def settled(self, packets: list[int]) -> list[int]:
        """Drop the answers that no node waits for, which do nothing (see `heeded_answers`)."""
        if not self.reduce:
            return packets
        return [packet for packet in packets if not _is_stale_answer(self.packets[packet])]

    def forget(
        self, node: int, peers: tuple[NodeId, ...], packets: list[int], machines: list[int]
    ) -> list[int]:
        """Mark the node's requests to these peers as no longer awaited."""
        here = self.names[node]
        after = []
        for packet in packets:
            message = self.packets[packet].message
            mine = (
                message.source == here and message.destination in peers
                if isinstance(message, Request)
                else message.destination == here and message.source in peers
            )
            after.append(self.stale[packet] if mine else packet)
        for peer in peers:
            index = self._index.get(peer)
            if index is not None and here in self._parked_at[machines[index]]:
                machines[index] = self._forgotten[machines[index], here]
        return after

    def _find_parked(self, number: int) -> tuple[NodeId, ...]:
        core = self.machines[number].core
        return canonical.parked(core) if core is not None else ()

    def _forget(self, key: tuple[int, NodeId]) -> int:
        each = self.machines[key[0]]
        return self.machines.number(replace(each, core=canonical.forget(each.up, key[1])))

    def is_lost(self, node: int, event: int, machines: Sequence[int], packets: Sequence[int]) -> bool:
        """Return whether nothing can come of this request any more, so that it is only a matter of time."""
        failed = self.events[event]
        if not isinstance(failed, RequestFailed):
            raise TypeError(f"{failed} is no failed request")
        here, there = self.names[node], failed.destination
        for packet in packets:
            message = self.packets[packet].message
            if message.correlation == canonical.CURRENT:
                ends = (message.source, message.destination)
                if ends == ((here, there) if isinstance(message, Request) else (there, here)):
                    return False
        return here not in self._parked_at[machines[self._index[there]]]

    def heeded_answers(self) -> Iterator[tuple[int, Action]]:
        """Yield the machines that act on an answer for which they don't wait. There must be none, because
        such answers are left out. Call it when all states are known."""
        stale = [
            (number, self.destination(number))
            for number in range(len(self.packets))
            if _is_stale_answer(self.packets[number])
        ]
        for number in range(len(self.machines)):
            each = self.machines[number]
            if each.core is None:
                continue
            node = self._index[each.key.id]
            for packet, destination in stale:
                if destination == node:
                    transition = self.received[number, packet]
                    if (
                        transition.broken
                        or transition.machine != number
                        or transition.sent
                        or transition.observations
                    ):
                        yield number, Action("deliver", node, packet)


def _is_stale_answer(packet: Packet) -> bool:
    message = packet.message
    return isinstance(message, Response) and message.correlation == canonical.STALE
