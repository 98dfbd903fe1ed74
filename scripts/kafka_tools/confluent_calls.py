"""confluent-kafka's AdminClient: librdkafka."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from python_clients import Calls, Given, must
from rows import Row

TOPIC = "confluent"
GROUP = "confluent-group"


def one(futures: Any) -> Any:
    """Return the result of the only call of several."""
    (future,) = futures.values()
    return future.result(15)


def calls(given: Given) -> list[Row]:
    bootstrap = given["bootstrap"]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    made = Calls("confluent-kafka")
    with made.of("topics"):
        topics(made, admin)
    _fill(bootstrap)
    with made.of("configs"):
        configs(made, admin)
    with made.of("groups"):
        groups(made, admin)
    with made.of("records"):
        records(made, admin)
    with made.of("cluster"):
        cluster(made, admin, given)
    with made.of("not served"):
        unserved(made, admin)
    return made.rows


def _fill(bootstrap: str) -> None:
    """Write ten records, and have a group read them."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    for number in range(10):
        producer.produce(TOPIC, b"%d" % number, partition=0)
    producer.flush(15)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "log_level": 2, "group.id": GROUP, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    consumer.consume(10, timeout=20)
    consumer.commit(asynchronous=False)
    consumer.close()


def topics(made: Calls, admin: AdminClient) -> None:
    made.ends(
        "create_topics",
        lambda: one(admin.create_topics([NewTopic(TOPIC, 1, 3, config={"retention.ms": "600000"})])),
    )
    made.ends(
        "create_topics, validate_only",
        lambda: one(admin.create_topics([NewTopic("confluent-dry", 1, 3)], validate_only=True)),
    )
    made.soon(
        "list_topics",
        "the topic, three brokers",
        lambda: must(
            TOPIC in admin.list_topics(timeout=10).topics and len(admin.list_topics(timeout=10).brokers) == 3,
            admin.list_topics(timeout=10).topics,
        ),
    )
    made.ends(
        "create_partitions",
        lambda: one(admin.create_partitions([NewPartitions(TOPIC, 2)])),
    )

    def described() -> None:
        found = one(admin.describe_topics(TopicCollection([TOPIC]), include_authorized_operations=True))
        must(len(found.partitions) == 2 and len(found.partitions[0].isr) == 3, found.partitions)
        must(len(found.authorized_operations) == 8, found.authorized_operations)

    made.soon("describe_topics", "two partitions, three in sync, authorized operations", described)

    def deleted() -> None:
        one(admin.create_topics([NewTopic("confluent-gone", 1, 1)]))
        one(admin.delete_topics(["confluent-gone"]))

    made.ends("delete_topics", deleted)


def configs(made: Calls, admin: AdminClient) -> None:
    topic = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)

    def value(key: str, expected: str) -> Callable[[], None]:
        def look() -> None:
            found = one(admin.describe_configs([topic]))[key]
            must(found.value == expected, found)

        return look

    made.soon("describe_configs", "the topic's retention.ms", value("retention.ms", "600000"))

    def altered() -> None:
        entry = ConfigEntry("retention.ms", "700000", incremental_operation=AlterConfigOpType.SET)
        one(
            admin.incremental_alter_configs(
                [ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])]
            )
        )

    made.ends("incremental_alter_configs", altered)
    made.soon("describe_configs afterwards", "the new retention.ms", value("retention.ms", "700000"))
    made.ends(
        "alter_configs",
        lambda: one(
            admin.alter_configs(
                [ConfigResource(ConfigResource.Type.TOPIC, TOPIC, set_config={"segment.bytes": "2097152"})]
            )
        ),
    )
    made.soon("describe_configs after both", "what was not named is gone", value("retention.ms", "604800000"))


def groups(made: Calls, admin: AdminClient) -> None:
    place = TopicPartition(TOPIC, 0)

    def listed() -> None:
        found = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(15)
        must(not found.errors and GROUP in [each.group_id for each in found.valid], found.valid)

    made.soon("list_consumer_groups", "the group, among the empty ones", listed)
    made.passes(
        "list_groups",
        "the group",
        lambda: must(GROUP in [each.id for each in admin.list_groups(timeout=10)], "not there"),
    )
    made.soon(
        "describe_consumer_groups",
        "it is empty",
        lambda: must(
            one(admin.describe_consumer_groups([GROUP])).state is ConsumerGroupState.EMPTY, "another state"
        ),
    )

    def offset(expected: int) -> None:
        asked = ConsumerGroupTopicPartitions(GROUP, [place])
        found = one(admin.list_consumer_group_offsets([asked])).topic_partitions[0]
        must(found.offset == expected, found)

    made.passes("list_consumer_group_offsets", "what was committed", lambda: offset(10))

    def moved() -> None:
        asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 3)])
        one(admin.alter_consumer_group_offsets([asked]))
        offset(3)

    made.passes("alter_consumer_group_offsets", "the new offset is listed", moved)
    made.ends(
        "delete_consumer_groups",
        lambda: one(admin.delete_consumer_groups([GROUP])),
    )


def records(made: Calls, admin: AdminClient) -> None:
    place = TopicPartition(TOPIC, 0)

    def at(spec: OffsetSpec, expected: int) -> None:
        found = one(admin.list_offsets({place: spec}))
        must(found.offset == expected, found)

    made.passes("list_offsets, earliest", "0", lambda: at(OffsetSpec.earliest(), 0))
    made.passes("list_offsets, latest", "10", lambda: at(OffsetSpec.latest(), 10))
    made.passes("list_offsets, a time", "0", lambda: at(OffsetSpec.for_timestamp(1000), 0))
    made.passes(
        "list_offsets, max_timestamp",
        "one of the ten",
        lambda: must(one(admin.list_offsets({place: OffsetSpec.max_timestamp()})).offset >= 0, "-1"),
    )

    def deleted() -> None:
        found = one(admin.delete_records([TopicPartition(TOPIC, 0, 4)]))
        must(found.low_watermark == 4, found.low_watermark)

    made.passes("delete_records", "low watermark 4", deleted)


def cluster(made: Calls, admin: AdminClient, given: Given) -> None:
    def described() -> None:
        found = admin.describe_cluster(include_authorized_operations=True).result(15)
        must(found.cluster_id == given["cluster"] and len(found.nodes) == 3, found.cluster_id)
        must(found.controller is not None and len(found.authorized_operations) == 7, found.controller)

    made.passes("describe_cluster", "id, three brokers, a controller, authorized operations", described)
    made.passes(
        "cluster_id",
        "the id",
        lambda: must(admin.cluster_id(timeout=10) == given["cluster"], "another one"),
    )

    def elected() -> None:
        place = TopicPartition(TOPIC, 0)
        error = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(15)[place]
        must(error is None or error.name() == "ELECTION_NOT_NEEDED", error)

    made.passes("elect_leaders", "elected, or not needed", elected)


def unserved(made: Calls, admin: AdminClient) -> None:
    topic, allowed = (ResourceType.TOPIC, "t", ResourcePatternType.LITERAL), AclPermissionType.ALLOW
    acl = AclBinding(*topic, "User:alice", "*", AclOperation.READ, allowed)
    anything, any_operation = (ResourceType.ANY, None, ResourcePatternType.ANY), AclOperation.ANY
    some = AclBindingFilter(*anything, None, None, any_operation, AclPermissionType.ANY)
    made.refused("create_acls", "ACLs, without an authorizer", lambda: one(admin.create_acls([acl])))
    made.refused("describe_acls", "ACLs, without an authorizer", lambda: admin.describe_acls(some).result(15))
    made.refused("delete_acls", "ACLs, without an authorizer", lambda: one(admin.delete_acls([some])))
    made.passes(
        "describe_user_scram_credentials",
        "an answer",
        lambda: admin.describe_user_scram_credentials().result(15),
    )
    secret = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    made.refused(
        "alter_user_scram_credentials",
        "SCRAM",
        lambda: one(
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion("dora", secret, b"secret")])
        ),
    )
