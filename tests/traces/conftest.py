"""How the traces tell what happens."""

from collections.abc import Callable
from typing import assert_never

import pytest

from quorate.error_code import ErrorCode
from quorate.raft.core.core_config import BatchSpan
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
    RoleChanged,
    Send,
    SendRecords,
    SendSnapshotChunk,
    StoreSnapshotChunk,
    TransferEnded,
    Truncate,
    VotersChanged,
)
from quorate.raft.core.events import Timer
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
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.types import NodeId, Offset, ReplicaKey, SnapshotId, VoterSet


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what the traces show now; then read the diff"
    )


def shown_id(node: NodeId | None) -> str:
    return "nobody" if node is None else str(node)


def shown_node(node: NodeId) -> str:
    """A bootstrap server is b1, b2, ..."""
    return str(node) if node >= 0 else f"b{-1 - node}"


def shown_snapshot(snapshot: SnapshotId) -> str:
    return f"snapshot {snapshot.end_offset}@{snapshot.epoch}"


def shown_key(key: ReplicaKey) -> str:
    return str(key.id) if key.directory_id is None else f"{key.id}/{key.directory_id}"


def shown_voters(voters: VoterSet) -> str:
    return "voters " + " ".join(
        shown_key(voter.key)
        + ("" if voter.endpoint.host == f"node-{voter.key.id}" else f" at {voter.endpoint.host}")
        for voter in voters
    )


def shown_batch(batch: BatchSpan) -> str:
    span = f"[{batch.base_offset},{batch.end_offset})@{batch.epoch}"
    return span if batch.voters is None else f"{span} with {shown_voters(batch.voters.voters)}"


def shown_hw(high_watermark: Offset | None) -> str:
    return "hw ?" if high_watermark is None else f"hw {high_watermark}"


def shown_timer(timer: Timer) -> str:
    return timer.kind.value if timer.node is None else f"{timer.kind.value} {shown_node(timer.node)}"


def shown_message(message: Message) -> str:
    way = f"{shown_node(message.source)}->{shown_node(message.destination)}"
    if isinstance(message, Response):
        known = f"epoch {message.epoch} leader {shown_id(message.leader)}"
        if message.error is not ErrorCode.NONE:
            known = f"{message.error.name} {known}"
    match message:
        case VoteRequest():
            kind = "PreVote" if message.pre_vote else "Vote"
            why = ", its leader resigned" if message.leader_resigned else ""
            return f"{way} {kind}? epoch {message.epoch}, log {message.end_offset}@{message.last_epoch}{why}"
        case VoteResponse():
            kind = "PreVote" if message.pre_vote else "Vote"
            return f"{way} {kind} {'granted' if message.granted else 'refused'}, {known}"
        case BeginQuorumEpochRequest():
            return f"{way} Begin? epoch {message.epoch}"
        case BeginQuorumEpochResponse():
            return f"{way} Begin, {known}"
        case EndQuorumEpochRequest():
            successors = " ".join(map(str, message.preferred_successors))
            return f"{way} End? epoch {message.epoch}, successors {successors}"
        case EndQuorumEpochResponse():
            return f"{way} End, {known}"
        case FetchRequest():
            where = f"{message.offset}@{message.last_fetched_epoch}"
            discover = ", only who leads" if message.max_bytes == 0 else ""
            hw = shown_hw(message.high_watermark)
            echo = f", read round {message.read_round}" if message.read_round else ""
            promise = f", promises {message.promise_ms} ms from" if message.promise_ms else ""
            lease = f"{promise} the answer of {message.lease_time_ms}" if message.lease_time_ms else ""
            return f"{way} Fetch? epoch {message.epoch}, from {where}, {hw}{echo}{lease}{discover}"
        case FetchResponse():
            parts = [known, shown_hw(message.high_watermark)]
            if message.diverging is not None:
                parts.append(f"diverging {message.diverging.end_offset}@{message.diverging.epoch}")
            if message.snapshot is not None:
                parts.append(f"load {shown_snapshot(message.snapshot)}")
            if message.read_round:
                parts.append(f"read round {message.read_round}")
            if message.lease_time_ms:
                parts.append(f"answer of {message.lease_time_ms}")
            parts += [shown_batch(batch) for batch in message.batches]
            return f"{way} Fetch, {', '.join(parts)}"
        case FetchSnapshotRequest():
            what = f"{shown_snapshot(message.snapshot)} from byte {message.position}"
            nothing = ", only to be heard" if message.max_bytes == 0 else ""
            return f"{way} FetchSnapshot? epoch {message.epoch}, {what}{nothing}"
        case FetchSnapshotResponse():
            what = f"{shown_snapshot(message.snapshot)} bytes from {message.position}"
            return f"{way} FetchSnapshot, {known}, {what}: {message.length} of {message.size}"


def shown_effect(effect: Effect) -> str:
    match effect:
        case Persist(state=state):
            voted = shown_id(state.voted.id if state.voted is not None else None)
            promise = f", may have promised {state.promise_ms} ms" if state.promise_ms else ""
            return f"persist epoch {state.epoch} leader {shown_id(state.leader)} voted {voted}{promise}"
        case AppendLeaderChange():
            granting = " ".join(map(str, effect.granting_voters))
            with_set = "" if effect.voter_set is None else f", {shown_voters(effect.voter_set)}"
            change = f"LeaderChange epoch {effect.epoch}, votes of {granting}{with_set}"
            return f"append {effect.base_offset}: {change}"
        case AppendVoters():
            version = "kraft.version 1, " if effect.first else ""
            return f"append {effect.base_offset}@{effect.epoch}: {version}{shown_voters(effect.voters)}"
        case AppendProposal():
            return f"append [{effect.base_offset},{effect.end_offset})@{effect.epoch}"
        case AppendFetched():
            return "append fetched " + " ".join(shown_batch(batch) for batch in effect.batches)
        case RejectProposal():
            return f"reject: leader {shown_id(effect.leader)}, epoch {effect.epoch}"
        case Truncate():
            return f"truncate to {effect.end_offset}, generation {effect.generation}"
        case Send():
            return f"send {shown_message(effect.message)}"
        case SendRecords():
            return f"send {shown_message(effect.response)}, records from {effect.start_offset}"
        case ArmTimer():
            span = (
                str(effect.min_ms) if effect.min_ms == effect.max_ms else f"{effect.min_ms}-{effect.max_ms}"
            )
            return f"timer {shown_timer(effect.timer)} in {span} ms"
        case CancelTimer():
            return f"timer {shown_timer(effect.timer)} cancelled"
        case HighWatermarkAdvanced():
            return f"high watermark {effect.high_watermark}"
        case RoleChanged():
            voted = shown_id(effect.voted)
            return f"{effect.role.value}, epoch {effect.epoch} leader {shown_id(effect.leader)} voted {voted}"
        case SendSnapshotChunk():
            response = effect.response
            what = f"{shown_snapshot(response.snapshot)} from byte {response.position}"
            return f"send {response.source}->{response.destination} FetchSnapshot, {what}"
        case StoreSnapshotChunk():
            return (
                f"store {len(effect.chunk)} bytes of {shown_snapshot(effect.snapshot)} at {effect.position}"
            )
        case CheckSnapshot():
            return f"check {shown_snapshot(effect.snapshot)}"
        case InstallSnapshot():
            return f"install {shown_snapshot(effect.snapshot)}, generation {effect.generation}"
        case VotersChanged():
            how = "nobody knows" if effect.unknown else effect.error.name
            return f"change {effect.request} of voters: {how}{effect.message and ': ' + effect.message}"
        case ReadIndexConfirmed():
            return f"read round {effect.read_round} confirmed, read index {effect.read_index}"
        case ReadIndexFailed():
            leader = shown_id(effect.leader)
            return f"read round {effect.read_round} failed: leader {leader}, epoch {effect.epoch}"
        case TransferEnded():
            return f"no transfer to {effect.successor}: {effect.error.name}"
        case _:
            assert_never(effect)


@pytest.fixture
def tell_effect() -> Callable[[Effect], str]:
    return shown_effect


@pytest.fixture
def tell_message() -> Callable[[Message], str]:
    return shown_message
