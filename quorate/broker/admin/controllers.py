"""A quorum asked over its controller listeners: any quorum, whether or not there is a broker on it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import trio

from quorate.broker.controller.rpc import ControllerRequest, ControllerResponse
from quorate.broker.controller.rpc_codec import RpcDecodeError, decode_answer, encode_request
from quorate.error_code import ErrorCode
from quorate.raft import NotLeaderError, OutcomeUnknownError, QuorumDescription, RequestRefusedError
from quorate.raft.core import AddVoter, AdoptVoters, RemoveVoter, VoterChange
from quorate.raft.transport.channel import Channel
from quorate.raft.transport.description_frames import QuorumView
from quorate.raft.transport.snapshot_frames import ListedSnapshot
from quorate.runtime import Address, Network, NetworkError
from quorate.types import Epoch, NodeId, ReplicaKey, SnapshotId, Voter

Answer = TypeVar("Answer")
R = TypeVar("R", bound=ControllerResponse)

_CONNECT_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.2
_CHUNK_BYTES: Final = 1024 * 1024
_MAX_FRAME_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Leader:
    """The leader, by its own answer."""

    address: Address
    cluster_id: str
    description: QuorumDescription


class Controllers:
    """Finds the leader through any of `addresses`, and asks it until it answers or time is up.

    Methods raise `NetworkError` when no controller answers or leads, `OutcomeUnknownError` when the
    connection broke before the answer, and `RequestRefusedError`.
    """

    def __init__(self, network: Network, addresses: Sequence[Address], *, timeout_ms: int) -> None:
        self._network = network
        self._addresses = tuple(addresses)
        self._timeout_ms = timeout_ms

    async def describe(self) -> QuorumDescription:
        """Return the leader's view of the quorum."""
        with self._deadline():
            return (await self._leader()).description
        raise self._no_leader()

    async def views(self) -> dict[Address, QuorumView | NetworkError]:
        """Return what each of the addresses knows of the quorum, all asked at once, or why it said nothing
        within the time limit. Raises nothing of its own."""
        found: dict[Address, QuorumView | NetworkError] = {}

        async def ask(address: Address) -> None:
            found[address] = NetworkError(f"{address} gave no answer within {self._timeout_ms} ms")
            with self._deadline():
                try:
                    found[address] = await self._view(address)
                except NetworkError as error:
                    found[address] = error

        async with trio.open_nursery() as nursery:
            for address in self._addresses:
                nursery.start_soon(ask, address)
        return found

    async def add_voter(self, voter: Voter) -> None:
        """Add a voter. Returns when it votes; waits for it to catch up."""
        await self._change(AddVoter(voter))

    async def remove_voter(self, key: ReplicaKey) -> None:
        await self._change(RemoveVoter(key))

    async def adopt_voters(self) -> None:
        await self._change(AdoptVoters())

    async def transfer(self, to: NodeId) -> None:
        """Transfer the leadership. Returns when `to` leads."""
        refused_in: Epoch | None = None
        with self._deadline():
            while True:
                leader = await self._leader()
                before = leader.description
                if before.leader == to:
                    return
                try:
                    if await self._try(leader, lambda channel: channel.transfer_leadership(to)):
                        break
                except RequestRefusedError as error:
                    # A leader that has just been elected has not heard of `to` yet.
                    if (
                        error.code is not ErrorCode.REQUEST_TIMED_OUT
                        or leader.description.epoch == refused_in
                    ):
                        raise
                    refused_in = leader.description.epoch
                    await trio.sleep(_RETRY_SECONDS)
            while (now := (await self._leader()).description).leader != to:
                if now.epoch > before.epoch:
                    raise RequestRefusedError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"node {before.leader} gave up for node {to}, but node {now.leader} was elected; try "
                        "again",
                    )
                await trio.sleep(_RETRY_SECONDS)
            return
        raise OutcomeUnknownError(
            f"node {to} does not lead within {self._timeout_ms} ms; describe the quorum to see the leader"
        )

    async def take_snapshot(self, node: NodeId | None) -> tuple[NodeId, SnapshotId]:
        """Take a snapshot on a voter, by default the leader. Return its node and id. Raises
        `SnapshotNotTakenError`."""
        with self._deadline():
            leader = await self._leader()
            address = leader.address
            if node is not None and node != leader.description.leader:
                address = _address_of(leader.description, node)
            async with self._channel(address, cluster_id=leader.cluster_id) as channel:
                taken = await channel.take_snapshot()
                return leader.description.leader if node is None else node, taken
        raise OutcomeUnknownError(
            f"no snapshot within {self._timeout_ms} ms; it may come yet: see `quorate snapshot list`"
        )

    async def list_snapshots(self) -> dict[Address, tuple[ListedSnapshot, ...]]:
        """Return the snapshots of the leader, then of the other voters that answer, each ascending."""
        with self._deadline():
            leader = await self._leader()
            endpoints = (each.endpoint for each in leader.description.voters if each.endpoint is not None)
            addresses = [leader.address, *(Address(each.host, each.port) for each in endpoints)]
            found: dict[Address, tuple[ListedSnapshot, ...]] = {}
            for address in dict.fromkeys(addresses):
                try:
                    with trio.fail_after(_CONNECT_SECONDS):
                        async with self._channel(address, cluster_id=leader.cluster_id) as channel:
                            found[address] = await channel.list_snapshots()
                except (NetworkError, OutcomeUnknownError, trio.TooSlowError):
                    # Down, or of a version that has no such request.
                    continue
            return found
        raise self._no_leader()

    async def read_snapshot(
        self, address: Address, snapshot: SnapshotId, write: Callable[[bytes], object]
    ) -> None:
        """Hand the bytes of a snapshot at `address` to `write`, in order. Raises also `RequestRefusedError`
        when it was deleted meanwhile."""
        view = await self._view(address)
        async with self._channel(address, cluster_id=view.cluster_id) as channel:
            position, size, chunk = 0, 1, b""
            while position < size:
                with trio.move_on_after(self._timeout_ms / 1000) as deadline:
                    chunk, size = await channel.read_snapshot(
                        snapshot, position=position, max_bytes=_CHUNK_BYTES
                    )
                    write(chunk)
                    position += len(chunk)
                if deadline.cancelled_caught or not chunk:
                    raise OutcomeUnknownError(f"{address} sent no more of the snapshot at {position}")

    async def ask(self, request: ControllerRequest[R]) -> R:
        """Return the active controller's answer, which may be an error of the request."""
        with self._deadline():
            while True:
                leader = await self._leader()
                try:
                    found = await self.ask_at(leader.address, request, cluster_id=leader.cluster_id)
                except NetworkError:
                    found = None
                if found is not None:
                    return found
                await trio.sleep(_RETRY_SECONDS)
        raise OutcomeUnknownError(f"no answer of the controller within {self._timeout_ms} ms")

    async def ask_at(self, address: Address, request: ControllerRequest[R], *, cluster_id: str) -> R | None:
        """Ask one node once. Return its answer, which may be an error of the request; None if it leads no
        more, or not yet: nothing happened."""
        try:
            async with self._channel(address, cluster_id=cluster_id) as channel:
                answer = await channel.request(encode_request(request))
        except NotLeaderError:
            return None
        try:
            found = decode_answer(request, answer) if answer else None
        except RpcDecodeError as error:
            raise OutcomeUnknownError(str(error)) from error
        if found is not None and found.error is ErrorCode.REQUEST_TIMED_OUT:
            raise OutcomeUnknownError(found.error_message or found.error.name)
        return None if found is None or found.error is ErrorCode.NOT_CONTROLLER else found

    async def _change(self, change: VoterChange) -> None:
        refused: RequestRefusedError | None = None
        asking = False
        with self._deadline():
            while True:
                leader = await self._leader()
                try:
                    asking = True
                    if await self._try(leader, lambda channel: channel.change_voters(change)):
                        return
                except RequestRefusedError as error:
                    if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                        raise
                    refused = error
                # Refused for now, or by a node that no longer leads: nothing happened.
                asking = False
                await trio.sleep(_RETRY_SECONDS)
        if refused is not None and not asking:
            raise refused
        if not asking:
            raise self._no_leader()
        raise OutcomeUnknownError(
            f"the leader did not answer within {self._timeout_ms} ms; describe the quorum to see its voters"
        )

    async def _try(self, leader: _Leader, request: Callable[[Channel], Awaitable[None]]) -> bool:
        """Send the request. Return False when nothing happened because the node no longer leads, or is
        down."""
        try:
            async with self._channel(leader.address, cluster_id=leader.cluster_id) as channel:
                await request(channel)
                return True
        except (NotLeaderError, NetworkError):
            return False

    # Who leads

    async def _leader(self) -> _Leader:
        """Ask all nodes until one leads. Raises `NetworkError` when none can be reached."""
        while True:
            problems: list[str] = []
            asked: set[Address] = set()
            queue = list(self._addresses)
            while queue:
                address = queue.pop(0)
                if address in asked:
                    continue
                asked.add(address)
                try:
                    view = await self._view(address)
                except NetworkError as error:
                    problems.append(str(error))
                    continue
                if view.description is not None:
                    return _Leader(address, view.cluster_id, view.description)
                if view.leader_endpoint is not None:
                    queue.insert(0, Address(view.leader_endpoint.host, view.leader_endpoint.port))
            if len(problems) == len(asked):
                raise NetworkError(f"no controller answered: {'; '.join(problems)}")
            await trio.sleep(_RETRY_SECONDS)

    async def _view(self, address: Address) -> QuorumView:
        try:
            with trio.fail_after(_CONNECT_SECONDS):
                async with self._channel(address, cluster_id="") as channel:
                    return await channel.describe_quorum()
        except OutcomeUnknownError as error:
            raise NetworkError(
                f"{address} does not speak the quorum's protocol; give the address of a controller listener"
            ) from error
        except trio.TooSlowError:
            raise NetworkError(f"{address} gave no answer within {_CONNECT_SECONDS:g} s") from None

    @asynccontextmanager
    async def _channel(self, address: Address, *, cluster_id: str) -> AsyncIterator[Channel]:
        channel = await Channel.connect(
            self._network,
            address,
            cluster_id=cluster_id,
            max_frame_bytes=_MAX_FRAME_BYTES,
            max_append_bytes=_MAX_FRAME_BYTES,
            # Some answers take long; our own deadlines bound the wait.
            silence_timeout_ms=2 * self._timeout_ms,
        )
        failure: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.run)
                try:
                    yield channel
                except Exception as error:
                    # Kept out of the nursery, which would wrap it.
                    failure = error
                nursery.cancel_scope.cancel()
        finally:
            channel.close()
        if failure is not None:
            raise failure

    def _deadline(self) -> trio.CancelScope:
        return trio.move_on_after(self._timeout_ms / 1000)

    def _no_leader(self) -> NetworkError:
        return NetworkError(
            f"the quorum had no leader for {self._timeout_ms} ms; check that a majority of its voters runs"
        )


def _address_of(description: QuorumDescription, node: NodeId) -> Address:
    endpoint = next(
        (voter.endpoint for voter in description.voters if voter.key.id == node),
        None,
    )
    if endpoint is None:
        raise RequestRefusedError(
            ErrorCode.VOTER_NOT_FOUND,
            f"node {node} is no voter, and where it listens is not known; ask it with --bootstrap-controller",
        )
    return Address(endpoint.host, endpoint.port)
