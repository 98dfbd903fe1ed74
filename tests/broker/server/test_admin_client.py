"""The admin client from outside: each request of it, at the node that answers it."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from quorate.broker.admin import brokers, configs, groups, log_dirs, quorum, quotas, records, replicas, topics
from quorate.broker.admin.admin_client import AdminClient, TopicPartition, open_admin
from quorate.broker.admin.configs import Entity, EntityType
from quorate.broker.admin.controllers import Controllers
from quorate.broker.admin.log_dirs import PlacedReplica
from quorate.broker.admin.quotas import QuotaOwner
from quorate.broker.admin.topics import NewTopic
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime.network import Address, NetworkError
from quorate.runtime.real import RealNetwork
from tests.broker.server.client_requests import until
from tests.broker.server.conftest import MakeNodes, Nodes


@pytest.mark.slow
async def test_every_request_is_answered_by_the_right_node(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(2)
    addresses = [nodes.address(1), nodes.address(2)]
    async with open_admin(RealNetwork(), addresses, client_id="a test") as admin:
        await _topics(admin)
        await _brokers_and_quorum(admin, nodes)
        await _settings(admin)
        await _data(admin)
        await _groups(admin)


async def _topics(admin: AdminClient) -> None:
    assert await topics.create_topic(admin, "orders", assignment=[[1], [2]])
    assert not await topics.create_topic(admin, "orders", if_not_exists=True)
    with pytest.raises(KafkaError, match="topic orders: ") as refused:
        await topics.create_topic(admin, "orders")
    assert refused.value.code is ErrorCode.topic_already_exists

    async def is_known() -> bool:
        return await topics.topic_names(admin) == ["orders"]

    await until(is_known)
    await topics.create_partitions(admin, "orders", count=3, assignment=[[1]])

    async def has_three() -> bool:
        (described,) = await topics.describe_topics(admin, "orders")
        return [int(each.leader_id) for each in described.partitions] == [1, 2, 1]

    await until(has_three)
    assert [each.state for each in await topics.topic_states(admin, "orders")] == ["OnlinePartition"] * 3
    wanted = [NewTopic(name=name, partitions=1, replication_factor=1) for name in ("short-lived", "orders")]
    assert all(
        isinstance(each, UUID)
        for each in (await topics.create_topics(admin, wanted[:1], validate_only=True)).values()
    )
    created = await topics.create_topics(admin, wanted)
    refused_too, topic_id = created["orders"], created["short-lived"]
    assert isinstance(refused_too, KafkaError) and refused_too.code is ErrorCode.topic_already_exists
    assert isinstance(topic_id, UUID)
    await topics.delete_topic(admin, topic_id)
    with pytest.raises(KafkaError, match="topic short-lived: "):
        await topics.delete_topic(admin, "short-lived")
    await topics.create_partitions(admin, "orders", count=9, validate_only=True)
    with pytest.raises(KafkaError, match="topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"):
        await topics.describe_topics(admin, "nowhere")


async def _brokers_and_quorum(admin: AdminClient, nodes: Any) -> None:
    found = await admin.brokers()
    assert {each.broker_id: each.address for each in found.live.values()} == {
        1: nodes.address(1),
        2: nodes.address(2),
    }
    assert found.fenced == frozenset()
    assert await brokers.live_brokers(admin) == {1, 2}
    features = {each.name: each for each in (await brokers.describe_features(admin)).features}
    level = features["metadata.version"].finalized
    await brokers.set_features(admin, {"metadata.version": level}, upgrade_type=1, dry_run=True)
    with pytest.raises(KafkaError, match="broker 9: "):
        await brokers.unregister_broker(admin, 9)
    described = await quorum.describe_quorum(admin)
    assert {int(voter.key.id) for voter in described.voters} == {1, 2}
    controllers = await quorum.controllers_of(admin)
    assert set(controllers) == {nodes.controller_address(1), nodes.controller_address(2)}
    by_controllers = await Controllers(RealNetwork(), controllers, timeout_ms=10_000).describe()
    assert (by_controllers.leader, by_controllers.epoch) == (described.leader, described.epoch)


async def _settings(admin: AdminClient) -> None:
    topic = Entity(EntityType.TOPICS, "orders")
    await configs.alter_configs(admin, topic, {"retention.ms": "1000"})

    async def own(entity: Entity) -> dict[str, str | None]:
        held = await configs.describe_configs(admin, entity, everything=False)
        return {each.name: each.value for each in held}

    async def is_set() -> bool:
        return await own(topic) == {"retention.ms": "1000"}

    await until(is_set)
    await configs.alter_configs(admin, topic, {"segment.ms": "2000"}, replaces=True)

    async def is_replaced() -> bool:
        return await own(topic) == {"segment.ms": "2000"}

    await until(is_replaced)
    await configs.alter_configs(admin, topic, {"segment.ms": None})
    # Each broker answers for its own loggers.
    for broker in ("1", "2"):
        logger = Entity(EntityType.BROKER_LOGGERS, broker)
        assert await configs.describe_configs(admin, logger, everything=True)
    assert [each.name for each in await configs.entities(admin, EntityType.BROKERS)] == ["1", "2", ""]
    with pytest.raises(KafkaError, match="brokers 9: no broker that runs has the id 9"):
        await configs.describe_configs(admin, Entity(EntityType.BROKERS, "9"), everything=True)
    owner = QuotaOwner({"client-id": "loader"})
    await quotas.alter_quotas(admin, owner, {"producer_byte_rate": 1000.0})

    async def has_quota() -> bool:
        return [each.quotas for each in await quotas.list_quotas(admin, owner)] == [
            {"producer_byte_rate": 1000.0}
        ]

    await until(has_quota)
    await quotas.alter_quotas(admin, owner, {"producer_byte_rate": None})


async def _data(admin: AdminClient) -> None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert await records.offsets_at(admin, [first, second], records.LATEST) == {first: 0, second: 0}
    assert await records.partitions_of(admin, ["orders", "nowhere"]) == {
        "orders": [first, second, TopicPartition("orders", 2)]
    }
    deleted = await records.delete_records(admin, {first: -1, second: 0, TopicPartition("nowhere", 0): 0})
    assert [(each.low_watermark, each.error) for each in deleted] == [
        (0, ErrorCode.none),
        (0, ErrorCode.none),
        (-1, ErrorCode.unknown_topic_or_partition),
    ]
    held = await log_dirs.describe_log_dirs(admin, topics=["orders"])
    assert {each.broker_id: len(each.directories) for each in held} == {1: 1, 2: 1}
    home = held[0].directories[0].log_dir
    placed = PlacedReplica("orders", 0, 1)
    assert await log_dirs.move_replicas(admin, {placed: home}) == {}
    assert await log_dirs.states_of_moves(admin, {placed: home}) == {placed: ""}
    refused = await log_dirs.move_replicas(admin, {placed: "/no/such/directory"})
    assert refused[placed].startswith("LOG_DIR_NOT_FOUND: ")
    with pytest.raises(KafkaError, match="broker 9 is not live"):
        await log_dirs.refetch_replica(admin, PlacedReplica("orders", 0, 9))
    assert {node: each.damaged for node, each in (await log_dirs.describe_damage(admin)).items()} == {
        1: (),
        2: (),
    }
    view = await replicas.read_cluster(admin)
    assert view.targets()[second] == (2,)
    assert await replicas.alter_reassignments(admin, {second: (2,)}) == {}
    nowhere = TopicPartition("orders", 9)
    assert list(await replicas.alter_reassignments(admin, {nowhere: (1,)})) == [nowhere]
    (error,) = (await replicas.refused_reassignments(admin, {nowhere: (1,)})).values()
    assert error.code is ErrorCode.unknown_topic_or_partition
    (elected,) = await replicas.elect_leaders(admin, "preferred", {"orders": [0]})
    assert (elected.error, elected.failed) == ("ELECTION_NOT_NEEDED", False)


async def _groups(admin: AdminClient) -> None:
    first = TopicPartition("orders", 0)
    await groups.commit_offsets(admin, "billing", {first: 0})
    assert await groups.committed_offsets(admin, "billing") == {first: 0}
    assert [each.group_id for each in await groups.list_groups(admin)] == ["billing"]
    described = await groups.describe_group(admin, "billing")
    assert described is not None and (described.state, described.members) == ("Empty", ())
    (row,) = await groups.partition_views(admin, described)
    assert (row.topic, row.committed, row.end, row.lag) == ("orders", 0, 0, 0)
    assert await groups.delete_offsets(admin, "billing", [first]) == {first: ErrorCode.none}
    await groups.commit_offsets(admin, "billing", {first: 0})
    assert await groups.delete_groups(admin, ["billing"]) == {"billing": ErrorCode.none}
    assert await groups.describe_group(admin, "billing") is None


async def test_a_connection_that_broke_is_opened_again(nodes: Nodes) -> None:
    async with open_admin(RealNetwork(), [nodes.address(1)]) as admin:
        (address,) = (await admin.addresses()).values()
        first = await admin.to(address)
        assert await admin.to(address) is first
        first._break("a test")
        again = await admin.to(address)
        assert again is not first and again.broken is None


async def test_an_error_names_each_address_that_did_not_answer() -> None:
    nobody = [Address("127.0.0.1", 1), Address("127.0.0.1", 2)]
    with pytest.raises(NetworkError, match=r"no broker answered: .*127\.0\.0\.1:1.*127\.0\.0\.1:2"):
        async with open_admin(RealNetwork(), nobody):
            pytest.fail("nobody answers there")
