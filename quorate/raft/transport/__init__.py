"""The quorum's protocol over sockets: frames, codecs, peers, server, forwarding."""

from quorate.raft.transport.append_frames import size_of
from quorate.raft.transport.caller import (
    ApplicationHandler,
    Caller,
    CallerHandler,
    KafkaHandler,
    LocalCaller,
)
from quorate.raft.transport.channel import Channel
from quorate.raft.transport.description_frames import QuorumView
from quorate.raft.transport.endpoint_check import EndpointCheck
from quorate.raft.transport.forwarding import Forwarder
from quorate.raft.transport.peer_set import PeerSet
from quorate.raft.transport.peers import Peer
from quorate.raft.transport.quorum_server import Server
from quorate.raft.transport.snapshot_frames import ListedSnapshot, SnapshotRead

__all__ = [
    "ApplicationHandler",
    "Caller",
    "CallerHandler",
    "Channel",
    "EndpointCheck",
    "Forwarder",
    "KafkaHandler",
    "ListedSnapshot",
    "LocalCaller",
    "Peer",
    "PeerSet",
    "QuorumView",
    "Server",
    "SnapshotRead",
    "size_of",
]
