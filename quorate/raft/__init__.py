"""A Raft quorum to embed: replicated state, leader election and durable commits, on trio (KIP-595).

Begin with `Quorum.open`. `quorate.raft.core` is the protocol itself, which this package drives.

Names are imported at their first use. So the core runs without the driver, its disks and its event loop,
in the explorer and in other drivers.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.quorum_state import SkippedBatch
    from quorate.raft.core import CoreConfig, Role
    from quorate.raft.knowledge import Knowledge
    from quorate.raft.leadership import Leadership
    from quorate.raft.quorum import PendingAppend, Quorum
    from quorate.raft.quorum_config import HIGH_WATERMARK_WAIT_MS, QuorumConfig, parse_voters
    from quorate.raft.quorum_description import CodeSupport, QuorumDescription, ReplicaStatus
    from quorate.raft.quorum_errors import (
        InvalidAppendError,
        InvalidArgumentError,
        LeaderNotFoundError,
        NotLeaderError,
        OffsetGoneError,
        OutcomeUnknownError,
        PeerProtocolError,
        QuorumBusyError,
        QuorumConfigError,
        QuorumError,
        QuorumForkedError,
        QuorumStoppedError,
        QuorumThreadError,
        RequestRefusedError,
        RestoreRefusedError,
        SessionLostError,
        SessionWindowError,
        SkipRefusedError,
        SnapshotNotTakenError,
        StateMachineError,
        StatesDifferError,
    )
    from quorate.raft.sessions.session import Session
    from quorate.raft.sessions.session_records import SessionLimits
    from quorate.raft.sessions.sessions import Sessions
    from quorate.raft.state_machine.interface import (
        Appended,
        CheckingStateMachine,
        CommittedBatch,
        PlainStateMachine,
        SnapshotCodec,
        SnapshotLoader,
        StateMachine,
    )
    from quorate.raft.storage.restoring import restore_folder
    from quorate.raft.storage.skipping import skip_batch
    from quorate.raft.storage.storage import format_folder
    from quorate.raft.telemetry import NoTelemetry, Telemetry
    from quorate.raft.transport.caller import Caller
    from quorate.raft.watch.health import Health
    from quorate.raft.watch.hearing import HeardLeader
    from quorate.raft.watch.state_comparison import StateCheck
    from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VoterSet

_HOMES = {
    "CoreConfig": "quorate.raft.core.core_config",
    "Role": "quorate.raft.core.effects",
    "InvalidAppendError": "quorate.raft.quorum_errors",
    "InvalidArgumentError": "quorate.raft.quorum_errors",
    "LeaderNotFoundError": "quorate.raft.quorum_errors",
    "NotLeaderError": "quorate.raft.quorum_errors",
    "OutcomeUnknownError": "quorate.raft.quorum_errors",
    "PeerProtocolError": "quorate.raft.quorum_errors",
    "QuorumBusyError": "quorate.raft.quorum_errors",
    "QuorumConfigError": "quorate.raft.quorum_errors",
    "QuorumError": "quorate.raft.quorum_errors",
    "QuorumForkedError": "quorate.raft.quorum_errors",
    "QuorumStoppedError": "quorate.raft.quorum_errors",
    "QuorumThreadError": "quorate.raft.quorum_errors",
    "RequestRefusedError": "quorate.raft.quorum_errors",
    "RestoreRefusedError": "quorate.raft.quorum_errors",
    "OffsetGoneError": "quorate.raft.quorum_errors",
    "SessionLostError": "quorate.raft.quorum_errors",
    "SessionWindowError": "quorate.raft.quorum_errors",
    "SkipRefusedError": "quorate.raft.quorum_errors",
    "SnapshotNotTakenError": "quorate.raft.quorum_errors",
    "StateMachineError": "quorate.raft.quorum_errors",
    "StatesDifferError": "quorate.raft.quorum_errors",
    "Knowledge": "quorate.raft.knowledge",
    "Leadership": "quorate.raft.leadership",
    "PendingAppend": "quorate.raft.quorum",
    "Quorum": "quorate.raft.quorum",
    "HIGH_WATERMARK_WAIT_MS": "quorate.raft.quorum_config",
    "QuorumConfig": "quorate.raft.quorum_config",
    "parse_voters": "quorate.raft.quorum_config",
    "CodeSupport": "quorate.raft.quorum_description",
    "QuorumDescription": "quorate.raft.quorum_description",
    "ReplicaStatus": "quorate.raft.quorum_description",
    "Session": "quorate.raft.sessions.session",
    "SessionLimits": "quorate.raft.sessions.session_records",
    "Sessions": "quorate.raft.sessions.sessions",
    "Appended": "quorate.raft.state_machine.interface",
    "CheckingStateMachine": "quorate.raft.state_machine.interface",
    "CommittedBatch": "quorate.raft.state_machine.interface",
    "PlainStateMachine": "quorate.raft.state_machine.interface",
    "SnapshotCodec": "quorate.raft.state_machine.interface",
    "SnapshotLoader": "quorate.raft.state_machine.interface",
    "StateMachine": "quorate.raft.state_machine.interface",
    "SkippedBatch": "quorate.quorum_state",
    "format_folder": "quorate.raft.storage.storage",
    "restore_folder": "quorate.raft.storage.restoring",
    "skip_batch": "quorate.raft.storage.skipping",
    "NoTelemetry": "quorate.raft.telemetry",
    "Telemetry": "quorate.raft.telemetry",
    "Caller": "quorate.raft.transport.caller",
    "Health": "quorate.raft.watch.health",
    "HeardLeader": "quorate.raft.watch.hearing",
    "StateCheck": "quorate.raft.watch.state_comparison",
    "Endpoint": "quorate.types",
    "Epoch": "quorate.types",
    "NodeId": "quorate.types",
    "Offset": "quorate.types",
    "ReplicaKey": "quorate.types",
    "SnapshotId": "quorate.types",
    "Voter": "quorate.types",
    "VoterSet": "quorate.types",
}

__getattr__ = lazily(__name__, _HOMES)


__all__ = [
    "HIGH_WATERMARK_WAIT_MS",
    "Appended",
    "Caller",
    "CheckingStateMachine",
    "CodeSupport",
    "CommittedBatch",
    "CoreConfig",
    "Endpoint",
    "Epoch",
    "Health",
    "HeardLeader",
    "InvalidAppendError",
    "InvalidArgumentError",
    "Knowledge",
    "LeaderNotFoundError",
    "Leadership",
    "NoTelemetry",
    "NodeId",
    "NotLeaderError",
    "Offset",
    "OffsetGoneError",
    "OutcomeUnknownError",
    "PeerProtocolError",
    "PendingAppend",
    "PlainStateMachine",
    "Quorum",
    "QuorumBusyError",
    "QuorumConfig",
    "QuorumConfigError",
    "QuorumDescription",
    "QuorumError",
    "QuorumForkedError",
    "QuorumStoppedError",
    "QuorumThreadError",
    "ReplicaKey",
    "ReplicaStatus",
    "RequestRefusedError",
    "RestoreRefusedError",
    "Role",
    "Session",
    "SessionLimits",
    "SessionLostError",
    "SessionWindowError",
    "Sessions",
    "SkipRefusedError",
    "SkippedBatch",
    "SnapshotCodec",
    "SnapshotId",
    "SnapshotLoader",
    "SnapshotNotTakenError",
    "StateCheck",
    "StateMachine",
    "StateMachineError",
    "StatesDifferError",
    "Telemetry",
    "Voter",
    "VoterSet",
    "format_folder",
    "parse_voters",
    "restore_folder",
    "skip_batch",
]
