"""A core as it would stand if the nodes had other names. It touches what the core keeps to itself.

What the core keeps in the order of ids is put into the order of the new ones, and Unattached's place in the
row of whom it asks next is that of the same peer. So the outcome is a core that could be; whether it goes on
as its namesake does is another question, which `symmetry` asks of every step.
"""

from quorate.raft.core import Core, NodeState
from quorate.raft.core.replica_log.voter_history import VoterHistory
from quorate.raft.core.roles.ballot import Ballot
from quorate.raft.core.roles.candidate import Candidate
from quorate.raft.core.roles.follower import Follower
from quorate.raft.core.roles.leader import Leader
from quorate.raft.core.roles.prospective import Prospective
from quorate.raft.core.roles.replica_progress import ReplicaProgress
from quorate.raft.core.roles.resigned import Resigned
from quorate.raft.core.roles.tracker import Replicas
from quorate.raft.core.roles.unattached import Unattached
from tests.simulator.explorer.core_model.renaming import Renaming


def renamed(core: Core, to: Renaming) -> Core:
    """An independent one."""
    twin = core.clone()
    peers = twin._node.may_know_leader
    _node(twin._node, to)
    role = twin._roles.role
    match role:
        case Unattached():
            if peers:
                role._next = twin._node.may_know_leader.index(to.node(peers[role._next]))
            role._leaderless = tuple(sorted(map(to.node, role._leaderless)))
        case Follower():
            role.leader = to.node(role.leader)
        case Prospective() | Candidate():
            _ballot(role._ballot, to)
        case Leader():
            role._granting_voters = tuple(sorted(map(to.node, role._granting_voters)))
            role._transfer.successor = to.node_if_any(role._transfer.successor)
            rounds = role._read_index
            rounds._returned = {to.node(node): returned for node, returned in rounds._returned.items()}
            _replicas(role._replicas, twin._node, to)
        case Resigned():
            role._preferred_successors = tuple(sorted(map(to.node, role._preferred_successors)))
            role._acknowledged = set(map(to.node, role._acknowledged))
        case _:
            raise TypeError(f"say what a {type(role).__name__} keeps of other nodes")
    return twin


def _node(node: NodeState, to: Renaming) -> None:
    node.key = to.of(node.key)
    node.id = node.key.id
    node.endpoint = to.of(node.endpoint)
    node.election = to.of(node.election)
    node.leader = to.node_if_any(node.leader)
    node.leader_endpoint = to.of(node.leader_endpoint)
    if node.heard_of is not None:
        node.heard_of = to.node(node.heard_of[0]), to.of(node.heard_of[1])
    node.in_flight = {to.node(peer): asked for peer, asked in node.in_flight.items()}
    node.paused = {to.node(peer): failed for peer, failed in node.paused.items()}
    if node.incoming is not None:
        node.incoming.voters = to.of(node.incoming.voters)
    _history(node.log.voters, to)
    node.look_up_voters()


def _history(history: VoterHistory, to: Renaming) -> None:
    history._static = to.of(history._static)
    history._entries = [to.of(entry) for entry in history._entries]


def _ballot(ballot: Ballot, to: Renaming) -> None:
    ballot._granted = set(map(to.node, ballot._granted))
    ballot._refused = set(map(to.node, ballot._refused))


def _replicas(replicas: Replicas, node: NodeState, to: Renaming) -> None:
    for replica in replicas:
        _replica(replica, to)
    followers = {replica.key.id: replica for replica in replicas.followers.values()}
    replicas.followers = {key.id: followers[key.id] for key in node.others}
    # In the order in which they were last heard of.
    replicas.observers = {replica.key.id: replica for replica in replicas.observers.values()}
    ends = {to.node(voter): end for voter, end in replicas.voter_end_offsets.items()}
    replicas.voter_end_offsets = {voter: ends[voter] for voter in node.voters.ids}
    replicas._fetched = set(map(to.node, replicas._fetched))


def _replica(replica: ReplicaProgress, to: Renaming) -> None:
    replica.key = to.of(replica.key)
    replica.fetched_as = to.of(replica.fetched_as)
    replica.fetch_wait = to.of(replica.fetch_wait)
    replica.parked = to.of(replica.parked)
