"""Wrong configurations and arguments are refused when they are used, with a remedy."""

import pytest
import trio

from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.quorum_errors import InvalidArgumentError, QuorumConfigError
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from tests.raft.conftest import Journal

THREE = "1@node-1:9093,2@node-2:9093,3@node-3:9093"


async def formatted(world, **overrides):
    """Node 1's folder, and a configuration for it."""
    await world.start(1)
    await world.stop(1)
    world.overrides.update({"observer": False, **overrides})
    return world.config(1)


async def refusal(world, machine=None, **overrides):
    config = await formatted(world, **overrides)
    with pytest.raises(QuorumConfigError) as refused:
        async with Quorum.open(config, machine or Journal(), runtime=world.runtime(1)):
            raise AssertionError("it opened")
    # Nothing is left locked or bound.
    world.overrides.clear()
    await world.start(1)
    return str(refused.value)


async def test_a_node_that_could_never_know_a_leader_does_not_open(autojump_clock, world):
    said = await refusal(world, voters=parse_voters(""))
    assert "no voter is known" in said
    assert "bootstrap=(Endpoint(host, port),)" in said
    assert 'voters=parse_voters("1@host:port' in said


async def test_a_node_that_is_not_among_its_voters_has_to_say_that_it_only_follows(autojump_clock, world):
    others = parse_voters("2@node-2:9093,3@node-3:9093")
    said = await refusal(world, voters=others, observer=False)
    assert "node 1 is not among voters (2@node-2:9093,3@node-3:9093)" in said
    assert "observer=True" in said


@pytest.mark.parametrize(
    "overrides",
    [
        {"voters": parse_voters("2@node-2:9093,3@node-3:9093"), "observer": True},
        {"voters": parse_voters("2@node-2:9093"), "bootstrap": (Endpoint("node-2", 9093),)},
        {"voters": VoterSet(()), "bootstrap": (Endpoint("node-2", 9093),)},
    ],
)
async def test_a_node_that_is_meant_to_follow_opens(autojump_clock, world, overrides):
    config = await formatted(world, **overrides)
    async with Quorum.open(config, Journal(), runtime=world.runtime(1)) as quorum:
        assert quorum.leader is None


async def test_voters_in_the_log_are_enough(autojump_clock, world):
    directory = "AAAAAAAAAAAAAAAAAAAAAQ"
    world.first_voters = VoterSet((Voter(ReplicaKey(NodeId(1), directory), Endpoint("node-1", 9093)),))
    config = await formatted(world, voters=VoterSet(()))
    async with Quorum.open(config, Journal(), runtime=world.runtime(1)) as quorum:
        with trio.fail_after(10):
            await quorum.wait_leader()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1@h:1;2@h:2", "separate voters by commas"),
        ("1@h 2@h:2", "separate voters by commas"),
        ("1@h:1,2@h:1", "voters 1 and 2 have the same endpoint, h:1"),
        ("1@h:1,1@i:1", "distinct"),
        ("1@h", "write id@host:port"),
        ("@h:1", "must be a node id"),
    ],
)
def test_a_list_of_voters_that_is_none_is_refused(text, why):
    with pytest.raises(QuorumConfigError, match=why):
        parse_voters(text)


@pytest.mark.parametrize(
    "text", ["1@[::1]:1", "1@10.0.0.1:1", "1@a-b.c_d.example:1", "1@[fe80::1%eth0]:1", " 1@h:1 , 2@h:2 "]
)
def test_hosts_of_all_kinds_are_read(text):
    assert parse_voters(text)


def test_an_endpoint_that_two_voters_have_is_refused_however_it_is_written():
    voters = VoterSet(tuple(Voter(ReplicaKey(NodeId(n)), Endpoint("h", 1)) for n in (1, 2)))
    with pytest.raises(QuorumConfigError, match="same endpoint"):
        QuorumConfig(node_id=NodeId(1), cluster_id="c", folder="f", voters=voters)
    with pytest.raises(QuorumConfigError, match="observer=True"):
        QuorumConfig(
            node_id=NodeId(1), cluster_id="c", folder="f", voters=parse_voters("1@h:1"), observer=True
        )


class NoApply:
    def take_snapshot(self):
        return iter([])

    def load_snapshot(self, snapshot):
        raise AssertionError


class OldLoader(Journal):
    def load_snapshot(self):
        raise AssertionError


class AsyncApply(Journal):
    async def apply(self, batch):
        return []


class TooMany(Journal):
    def apply(self, batch, extra):
        return []


class NotCallable(Journal):
    take_snapshot = b"state"


class CheckOfOne(Journal):
    def check(self):
        pass


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (object(), r"object has no method apply\(batch\)"),
        (NoApply(), r"NoApply has no method apply\(batch\)"),
        (OldLoader(), r"OldLoader.load_snapshot can't be called as load_snapshot\(snapshot\)"),
        (AsyncApply(), "AsyncApply.apply is async"),
        (TooMany(), r"TooMany.apply can't be called as apply\(batch\)"),
        (NotCallable(), r"NotCallable has no method take_snapshot\(\)"),
        (CheckOfOne(), r"CheckOfOne.check can't be called as check\(records\)"),
        (Journal, r"write Journal\(\)"),
    ],
)
async def test_an_object_without_a_required_method_is_refused_as_a_state_machine(
    autojump_clock, world, machine, why
):
    import re

    assert re.search(why, await refusal(world, machine))


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("append", ([b"x"],)),
        ("wait_read_index", ()),
        ("wait_leader", ()),
        ("ask_description", ()),
        ("transfer_leadership", (NodeId(1),)),
        ("adopt_voters", ()),
        ("remove_voter", (ReplicaKey(NodeId(1)),)),
    ],
)
async def test_a_negative_time_is_refused_by_its_name(autojump_clock, world, call, arguments):
    world.voters = parse_voters("1@node-1:9093")
    await world.start(1)
    with pytest.raises(InvalidArgumentError, match="timeout_ms is -5; it must be 0 or more"):
        await getattr(world.quorums[1], call)(*arguments, timeout_ms=-5)


async def test_a_negative_staleness_is_refused(autojump_clock, world):
    world.voters = parse_voters("1@node-1:9093")
    await world.start(1)
    with pytest.raises(ValueError, match="max_staleness_ms is -1"):
        await world.quorums[1].wait_read_index(max_staleness_ms=-1)


async def test_a_voter_without_a_directory_id_is_refused_at_once(autojump_clock, world):
    leader = await world.start_three()
    started = trio.current_time()
    with pytest.raises(
        InvalidArgumentError, match=r"voter.key.directory_id of node 4 is None.*meta.properties"
    ):
        await leader.add_voter(Voter(ReplicaKey(NodeId(4)), Endpoint("node-4", 9093)))
    assert trio.current_time() == started
