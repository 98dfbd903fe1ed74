"""The log lines about a configured voter list that the log has replaced (KIP-853)."""

import pytest
import trio

from quorate.quorum_state.parameter_names import EMBEDDED, SERVER
from quorate.raft.quorum_config import parse_voters
from quorate.types import Endpoint, VoterSet

AGREES = "the voters are in the log"
DIFFERS = "the voters in the log count, not the configured ones"


@pytest.fixture(autouse=True, params=[SERVER, EMBEDDED], ids=["server", "embedded"])
def names(request, world):
    """The names of parameters in messages."""
    world.overrides["names"] = request.param
    return request.param


def told(log_lines):
    return [line for line in log_lines if line["event"] in (AGREES, DIFFERS)]


async def adopted(world, log_lines):
    """The three have said so; one that follows."""
    await (await world.leader()).adopt_voters()
    await world.until(lambda: {line["node"] for line in told(log_lines)} == {1, 2, 3})
    return (await world.followers())[0].node_id


@pytest.mark.costly
@pytest.mark.parametrize(
    ("listed", "event", "level"),
    [
        ("3@node-3:9093,1@node-1:9093,2@node-2:9093", AGREES, "info"),
        ("1@node-1:9093,2@node-2:9093,3@node-3:9093,4@node-4:9093", DIFFERS, "warning"),
        ("1@node-1:9093,2@node-2:9093,3@elsewhere:9093", DIFFERS, "warning"),
    ],
)
async def test_a_configured_list_that_does_not_count_is_named_once_and_the_node_starts(
    listed, event, level, autojump_clock, world, log_lines, names
):
    await world.start(1, 2, 3)
    node = await adopted(world, log_lines)
    await world.stop(node)
    world.overrides["voters"] = parse_voters(listed)
    log_lines.clear()
    await world.start(node)
    (line,) = told(log_lines)
    assert (line["event"], line["log_level"]) == (event, level)
    assert line["voters"] == [f"{n}@node-{n}:9093" for n in (1, 2, 3)]
    assert line["reason"].startswith(f"{names.voters} ")
    leader = await world.leader()
    await leader.append([b"x"])
    await trio.sleep(5)
    assert told(log_lines) == [line]
    assert world.quorums[node].voters.ids == (1, 2, 3)


async def test_a_new_node_that_counts_on_its_configured_list_learns_that_it_is_no_voter(
    autojump_clock, world, log_lines, names
):
    await world.start(1, 2, 3)
    await adopted(world, log_lines)
    world.overrides["voters"] = parse_voters("2@node-2:9093,3@node-3:9093,4@node-4:9093")
    log_lines.clear()
    await world.start(4)
    await world.until(lambda: bool(told(log_lines)))
    (line,) = told(log_lines)
    assert line["event"] == DIFFERS
    assert line["configured"] == ["2@node-2:9093", "3@node-3:9093", "4@node-4:9093"]
    assert names.change_voters in line["reason"]
    assert world.quorums[4].voters.ids == (1, 2, 3)


async def test_a_log_that_brings_its_voters_with_a_change_of_them_is_no_mistake(
    autojump_clock, world, log_lines
):
    # As simulation seed 1320064 found: one answer brought the voters, a removal, and the leader after it.
    await world.start(1, 2, 3)
    await adopted(world, log_lines)
    leader = await world.leader()
    kept, gone = await world.followers()
    (removed,) = [voter.key for voter in leader.voters if voter.key.id == gone.node_id]
    await leader.remove_voter(removed)
    await world.stop(leader.node_id)
    await world.start(leader.node_id)
    await world.leader()
    (behind,) = [each.node_id for each in await world.followers() if each.node_id != gone.node_id]
    await world.stop(behind)
    world.replace_disk(behind)
    log_lines.clear()
    await world.start(behind)
    await world.until(lambda: bool(told(log_lines)))
    assert world.quorums[behind].voters.ids == tuple(sorted((leader.node_id, kept.node_id)))
    assert [line["event"] for line in told(log_lines)] == [DIFFERS]
    assert [line for line in log_lines if line["log_level"] == "error"] == []


@pytest.mark.slow
@pytest.mark.costly
async def test_there_is_no_warning_for_static_voters_in_use_or_for_none(autojump_clock, world, log_lines):
    await world.start_three()
    await trio.sleep(5)
    assert told(log_lines) == []
    node = await adopted(world, log_lines)
    await trio.sleep(5)
    assert {line["event"] for line in told(log_lines)} == {AGREES}
    await world.stop(node)
    world.overrides["voters"] = VoterSet(())
    world.overrides["bootstrap"] = (Endpoint("node-1", 9093), Endpoint("node-2", 9093))
    log_lines.clear()
    await world.start(node)
    await trio.sleep(5)
    assert told(log_lines) == []
