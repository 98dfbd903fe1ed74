"""Requests of this node's user to the node that leads."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import trio

from quorate.raft.quorum_errors import NotLeaderError, OutcomeUnknownError, QuorumError, QuorumStoppedError
from quorate.raft.transport.channel import Channel
from quorate.runtime import Address, Network, NetworkError, Tasks
from quorate.types import Epoch, NodeId, Offset


class Forwarder:
    """Keeps one channel to the leader, and the local results of forwarded appends.

    A forwarded append is answered with the results of this node's own state machine. So it keeps all results
    since the oldest append under way was forwarded.
    """

    def __init__(
        self,
        network: Network,
        *,
        cluster_id: str,
        max_frame_bytes: int,
        max_append_bytes: int,
        connect_timeout_ms: int,
        silence_timeout_ms: int,
        on_committed: Callable[[Epoch, Offset], None],
    ) -> None:
        """`on_committed`: called for each append that a leader answers, with the epoch and the end of the
        committed records."""
        self._network = network
        self._tasks = Tasks()
        self._on_committed = on_committed
        self._cluster_id = cluster_id
        self._max_frame_bytes = max_frame_bytes
        self._max_append_bytes = max_append_bytes
        self._connect_timeout_ms = connect_timeout_ms
        self._silence_timeout_ms = silence_timeout_ms
        self._channel: Channel | None = None
        self._opening = trio.Lock()
        self._losses = 0
        self._lost = trio.Event()
        self._under_way: dict[int, Offset] = {}
        """The applied offset when each append was forwarded, by number, oldest first. Its records come
        later."""
        self._idle = trio.Event()
        self._forwarded = 0
        self._stopped: QuorumError | None = None
        self._results: dict[int, object] = {}
        self._applied_offset = Offset(0)
        self._progress = trio.Event()
        self._awaiting_progress = 0

    async def run(self) -> None:
        """Run the channels' tasks until cancelled."""
        async with self._tasks.running():
            await trio.sleep_forever()

    def applied(self, base_offset: Offset, results: Sequence[object], applied_offset: Offset) -> None:
        """The local state machine has applied everything below `applied_offset`, these results last."""
        self._applied_offset = applied_offset
        if self._under_way:
            self._results.update(enumerate(results, base_offset))
        if self._awaiting_progress:
            self._notify()

    def _notify(self) -> None:
        progress, self._progress = self._progress, trio.Event()
        progress.set()

    def stop(self, error: QuorumError) -> None:
        """Fail the waiters with `error`: nothing more will be applied."""
        self._stopped = self._stopped or error
        self._notify()

    async def wait_applied(self, end_offset: Offset) -> None:
        """Return when everything below `end_offset` is applied. Raises `QuorumStoppedError`."""
        while self._applied_offset < end_offset:
            if self._stopped is not None:
                raise QuorumStoppedError(str(self._stopped)) from self._stopped.__cause__
            self._awaiting_progress += 1
            try:
                await self._progress.wait()
            finally:
                self._awaiting_progress -= 1

    async def append(
        self, leader: NodeId, address: Address, records: Sequence[bytes]
    ) -> tuple[Offset, Epoch, list[object]]:
        """Do the same as `Quorum.append`, through the node at `address`."""
        self._forwarded += 1
        number = self._forwarded
        self._under_way[number] = self._applied_offset
        try:
            channel = await self.channel_to(leader, address)
            base_offset, epoch = await channel.append(records)
            end_offset = Offset(base_offset + len(records))
            try:
                await self.wait_applied(end_offset)
            except QuorumStoppedError as stopped:
                raise OutcomeUnknownError(
                    f"the append was committed at offset {base_offset}, but this node stopped before it "
                    "applied it: its result is not known here"
                ) from stopped
            try:
                results = [self._results[offset] for offset in range(base_offset, end_offset)]
            except KeyError:
                raise OutcomeUnknownError(
                    f"the append was committed at offset {base_offset}, but this node was so far behind that "
                    "a snapshot replaced it before it was applied: its result is not known here"
                ) from None
            return base_offset, epoch, results
        finally:
            del self._under_way[number]
            if not self._under_way:
                self._idle.set()
            self._drop_results()

    async def wait_idle(self) -> None:
        """Return when no append is under way. No checkpoint if that is so."""
        while self._under_way:
            self._idle = trio.Event()
            await self._idle.wait()

    def _take_committed_end(self, epoch: Epoch, batch_end_offset: Offset) -> None:
        if self._applied_offset < batch_end_offset:
            self._on_committed(epoch, batch_end_offset)

    def _drop_results(self) -> None:
        """Drop the results that no append under way can need."""
        oldest = next(iter(self._under_way.values()), None)
        if oldest is None:
            self._results.clear()
            return
        while self._results and (first := next(iter(self._results))) < oldest:
            del self._results[first]

    async def request(self, leader: NodeId, address: Address, payload: bytes) -> bytes:
        channel = await self.channel_to(leader, address)
        return await channel.request(payload)

    async def channel_to(self, leader: NodeId, address: Address) -> Channel:
        """The connection that this node's requests share. Raises `NotLeaderError` when the leader can't be
        reached: nothing was sent."""
        async with self._opening:
            channel = self._channel
            if channel is not None and channel.address == address and not channel.broken:
                return channel
            if channel is not None:
                channel.close()
            try:
                channel = await Channel.connect(
                    self._network,
                    address,
                    node=leader,
                    cluster_id=self._cluster_id,
                    max_frame_bytes=self._max_frame_bytes,
                    max_append_bytes=self._max_append_bytes,
                    connect_timeout_ms=self._connect_timeout_ms,
                    silence_timeout_ms=self._silence_timeout_ms,
                    on_committed=self._take_committed_end,
                )
            except NetworkError as error:
                raise NotLeaderError(leader=leader, epoch=Epoch(0)) from error
            if self._tasks.ended:
                raise QuorumStoppedError("the quorum on this node has stopped")
            self._channel = channel
            self._tasks.start(partial(self._run_channel, channel))
            return channel

    async def _run_channel(self, channel: Channel) -> None:
        await channel.run()
        if channel is self._channel:
            self._losses += 1
            lost, self._lost = self._lost, trio.Event()
            lost.set()

    async def losses(self) -> AsyncIterator[None]:
        """Yield when the channel has broken, once for several breaks since the last yield."""
        seen = self._losses
        while True:
            while self._losses == seen:
                await self._lost.wait()
            seen = self._losses
            yield
