"""A Raft quorum to embed: replicated state, leader election and durable commits, on trio (KIP-595).

The protocol itself is `quorate.raft.core`; this package drives it. `Quorum.open` is the way in.

Names are imported when they are first used: the log and the quorum-state file share the core's types, and
must not import the driver that imports them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate.raft.core.core_config import CoreConfig
    from quorate.raft.core.effects import Role
    from quorate.raft.errors import (
        InvalidAppendError,
        InvalidArgumentError,
        NotLeaderError,
        OutcomeUnknownError,
        PeerProtocolError,
        QuorumBusyError,
        QuorumConfigError,
        QuorumError,
        QuorumForkedError,
        QuorumStoppedError,
        RequestRefusedError,
        SkipRefusedError,
        SnapshotNotTakenError,
        StateMachineError,
    )
    from quorate.raft.leadership import Leadership
    from quorate.raft.quorum import Quorum
    from quorate.raft.quorum_config import QuorumConfig, parse_voters
    from quorate.raft.quorum_description import QuorumDescription, ReplicaStatus
    from quorate.raft.state_machine.interface import (
        Appended,
        CheckingStateMachine,
        CommittedBatch,
        SnapshotLoader,
        StateMachine,
    )
    from quorate.raft.storage.skipped_batches import SkippedBatch
    from quorate.raft.storage.skipping import skip_batch
    from quorate.raft.storage.storage import format_folder
    from quorate.raft.telemetry import Telemetry
    from quorate.raft.watch.health import Health
    from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VoterSet

_HOMES = {
    "QuorumConfig": "config",
    "parse_voters": "config",
    "Role": "core.effects",
    "CoreConfig": "core.types",
    "Endpoint": "core.types",
    "Epoch": "core.types",
    "NodeId": "core.types",
    "Offset": "core.types",
    "ReplicaKey": "core.types",
    "SnapshotId": "core.types",
    "Voter": "core.types",
    "VoterSet": "core.types",
    "InvalidAppendError": "errors",
    "InvalidArgumentError": "errors",
    "NotLeaderError": "errors",
    "OutcomeUnknownError": "errors",
    "PeerProtocolError": "errors",
    "QuorumBusyError": "errors",
    "QuorumConfigError": "errors",
    "QuorumError": "errors",
    "QuorumForkedError": "errors",
    "QuorumStoppedError": "errors",
    "RequestRefusedError": "errors",
    "SkipRefusedError": "errors",
    "SnapshotNotTakenError": "errors",
    "StateMachineError": "errors",
    "Health": "health",
    "Leadership": "leadership",
    "Quorum": "quorum",
    "QuorumDescription": "replicas",
    "ReplicaStatus": "replicas",
    "SkippedBatch": "skipped_batches",
    "skip_batch": "skipping",
    "Appended": "state_machine",
    "CheckingStateMachine": "state_machine",
    "CommittedBatch": "state_machine",
    "SnapshotLoader": "state_machine",
    "StateMachine": "state_machine",
    "format_folder": "storage",
    "Telemetry": "telemetry",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = [
    "Appended",
    "CheckingStateMachine",
    "CommittedBatch",
    "CoreConfig",
    "Endpoint",
    "Epoch",
    "Health",
    "InvalidAppendError",
    "InvalidArgumentError",
    "Leadership",
    "NodeId",
    "NotLeaderError",
    "Offset",
    "OutcomeUnknownError",
    "PeerProtocolError",
    "Quorum",
    "QuorumBusyError",
    "QuorumConfig",
    "QuorumConfigError",
    "QuorumDescription",
    "QuorumError",
    "QuorumForkedError",
    "QuorumStoppedError",
    "ReplicaKey",
    "ReplicaStatus",
    "RequestRefusedError",
    "Role",
    "SkipRefusedError",
    "SkippedBatch",
    "SnapshotId",
    "SnapshotLoader",
    "SnapshotNotTakenError",
    "StateMachine",
    "StateMachineError",
    "Telemetry",
    "Voter",
    "VoterSet",
    "format_folder",
    "parse_voters",
    "skip_batch",
]
