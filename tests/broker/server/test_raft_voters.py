"""Kafka's requests about the quorum's voters, through brokers (KIP-853)."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from quorate.runtime.entropy import parse_uuid
from quorate.types import ReplicaKey
from tests.broker.server.conftest import MakeNodes, Nodes

UNKNOWN = UUID(int=99)


def listener(nodes: Any, node: int, name: str = "CONTROLLER") -> dict[str, object]:
    endpoint = nodes.config(node).voters.endpoint_of(node)
    return {"name": name, "host": endpoint.host, "port": endpoint.port}


async def add(client: WireClient, node: int, directory: UUID | None, **values: object) -> Any:
    return await client.call(
        ApiKey.ADD_RAFT_VOTER,
        **{"timeout": timedelta(seconds=10), "voter_id": node, "voter_directory_id": directory, **values},
    )


async def remove(client: WireClient, node: int, directory: UUID | None, **values: object) -> Any:
    return await client.call(ApiKey.REMOVE_RAFT_VOTER, voter_id=node, voter_directory_id=directory, **values)


async def update(client: WireClient, node: int, directory: UUID | None, **values: object) -> Any:
    return await client.call(
        ApiKey.UPDATE_RAFT_VOTER,
        **{
            "current_leader_epoch": -1,
            "voter_id": node,
            "voter_directory_id": directory,
            "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
            **values,
        },
    )


async def described(client: WireClient) -> Any:
    return await client.call(
        ApiKey.DESCRIBE_QUORUM,
        topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}],
    )


def directory_of(nodes: Any, node: int) -> UUID:
    key: ReplicaKey = next(voter.key for voter in nodes.servers[node].quorum.voters if voter.key.id == node)
    assert key.directory_id is not None
    return parse_uuid(key.directory_id)


async def three_that_can_change(make_nodes: MakeNodes) -> Any:
    # None of these is about elections: on a busy machine nobody stands for a while.
    nodes = await make_nodes(3, {"controller.quorum.fetch.timeout.ms": "20000"})
    await nodes.servers[1].quorum.adopt_voters()
    for server in nodes.servers.values():
        with trio.fail_after(10):
            while not all(voter.key.directory_id for voter in server.quorum.voters):  # noqa: ASYNC110
                await trio.sleep(0.01)
    return nodes


@pytest.mark.bug("KAFKA-17604")
async def test_a_voter_is_removed_and_added_again_by_way_of_any_broker(make_nodes: MakeNodes) -> None:
    """Added voters are described with their endpoints."""
    nodes = await three_that_can_change(make_nodes)
    leader = nodes.servers[1].quorum.leader
    voter = next(node for node in (1, 2, 3) if node != leader)
    asked = next(node for node in (1, 2, 3) if node not in (leader, voter))
    directories = [(node, directory_of(nodes, node)) for node in (1, 2, 3)]
    directory = dict(directories)[voter]
    async with nodes.client(asked) as client:
        removed = await remove(client, voter, directory, cluster_id="test-cluster")
        assert (removed.error_code, removed.error_message) == (ErrorCode.none, None)
        answer = await described(client)
        part = answer.topics[0].partitions[0]
        assert voter not in [each.replica_id for each in part.current_voters]
        assert [(each.replica_id, each.replica_directory_id) for each in part.observers] == [
            (voter, directory)
        ]
        assert voter not in [node.node_id for node in answer.nodes], "an observer's endpoint is not known"

        added = await add(client, voter, directory, listeners=[listener(nodes, voter)])
        assert (added.error_code, added.error_message) == (ErrorCode.none, None)
        answer = await described(client)
        part = answer.topics[0].partitions[0]
        assert [(each.replica_id, each.replica_directory_id) for each in part.current_voters] == directories
        assert [(node.node_id, node.listeners[0].port) for node in answer.nodes] == [
            (node, listener(nodes, node)["port"]) for node in (1, 2, 3)
        ]
        assert {node.listeners[0].name for node in answer.nodes} == {"CONTROLLER"}


async def test_a_voters_endpoint_is_updated_and_the_answer_names_the_leader(make_nodes: MakeNodes) -> None:
    nodes = await three_that_can_change(make_nodes)
    quorum = nodes.servers[1].quorum
    voter = next(node for node in (1, 2, 3) if node != quorum.leader)
    directory = directory_of(nodes, voter)
    moved = listener(nodes, voter) | {"host": "localhost"}
    async with nodes.client(voter) as client:
        answer = await update(client, voter, directory, listeners=[moved])
        assert answer.error_code is ErrorCode.none
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (
            quorum.leader,
            quorum.epoch,
        )
        assert answer.current_leader.port == listener(nodes, quorum.leader)["port"]
        stale = await update(
            client, voter, directory, listeners=[moved], current_leader_epoch=quorum.epoch - 1
        )
        assert stale.error_code is ErrorCode.fenced_leader_epoch
        ahead = await update(
            client, voter, directory, listeners=[moved], current_leader_epoch=quorum.epoch + 1
        )
        assert ahead.error_code is ErrorCode.unknown_leader_epoch


@pytest.mark.slow
@pytest.mark.bug("KAFKA-20661")
async def test_an_invalid_change_of_voters_is_refused_with_kafkas_code_and_changes_nothing(
    make_nodes: MakeNodes,
) -> None:
    """One of the changes is without an endpoint for the default listener."""
    nodes = await three_that_can_change(make_nodes)
    before = nodes.servers[1].quorum.voters
    here = [listener(nodes, 1)]
    async with nodes.client(1) as client:
        own = directory_of(nodes, 1)
        refused = [
            (await add(client, 4, UNKNOWN, listeners=here, cluster_id="other"), "inconsistent_cluster_id"),
            (await add(client, 4, UNKNOWN, listeners=[]), "invalid_request"),
            (await add(client, 4, UNKNOWN, listeners=[listener(nodes, 1, "SSL")]), "invalid_request"),
            (await add(client, 4, None, listeners=here), "invalid_request"),
            (await add(client, -1, UNKNOWN, listeners=here), "invalid_request"),
            (await add(client, 1, UNKNOWN, listeners=here), "duplicate_voter"),
            (
                await add(client, 4, UNKNOWN, listeners=here, timeout=timedelta(milliseconds=100)),
                "request_timed_out",
            ),
            (await remove(client, 1, UNKNOWN), "voter_not_found"),
            (await remove(client, 4, own), "voter_not_found"),
            (await remove(client, 1, None), "invalid_request"),
            (await remove(client, 1, own, cluster_id="other"), "inconsistent_cluster_id"),
        ]
        for answer, code in refused:
            assert answer.error_code.name == code
            assert answer.error_message, code
        updates = [
            (await update(client, 4, own, listeners=here), "voter_not_found"),
            (await update(client, 1, own, listeners=[]), "invalid_request"),
            (
                await update(
                    client,
                    1,
                    own,
                    listeners=here,
                    k_raft_version_feature={"min_supported_version": 0, "max_supported_version": 0},
                ),
                "invalid_request",
            ),
            (await update(client, 1, own, listeners=here, cluster_id="other"), "inconsistent_cluster_id"),
        ]
        for answer, code in updates:
            assert answer.error_code.name == code
            assert answer.current_leader.leader_id == nodes.servers[1].quorum.leader
    assert nodes.servers[1].quorum.voters == before


async def test_a_static_set_can_not_be_changed_and_the_answer_says_what_to_do_first(
    client: WireClient,
) -> None:
    answer = await remove(client, 1, UNKNOWN)
    assert answer.error_code is ErrorCode.unsupported_version
    assert "kraft.version 1" in answer.error_message


async def test_the_last_voter_stays(nodes: Nodes, client: WireClient) -> None:
    await nodes.servers[1].quorum.adopt_voters()
    answer = await remove(client, 1, directory_of(nodes, 1))
    assert answer.error_code is ErrorCode.voter_not_found
    assert "last voter" in answer.error_message


@pytest.mark.costly
@pytest.mark.parametrize("committed", [True, False])
async def test_an_addition_is_answered_whether_it_waits_for_the_commit_or_not(
    make_nodes: MakeNodes, committed: bool
) -> None:
    nodes = await three_that_can_change(make_nodes)
    leader = nodes.servers[1].quorum.leader
    voter = next(node for node in (1, 2, 3) if node != leader)
    directory = directory_of(nodes, voter)
    async with nodes.client(leader) as client:
        await remove(client, voter, directory)
        answer = await add(
            client, voter, directory, listeners=[listener(nodes, voter)], ack_when_committed=committed
        )
        assert answer.error_code is ErrorCode.none
        part = (await described(client)).topics[0].partitions[0]
        assert voter in [each.replica_id for each in part.current_voters]
