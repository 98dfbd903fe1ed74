"""kafka-python's KafkaAdminClient."""

from collections.abc import Iterable
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    OffsetSpec,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.structs import OffsetAndMetadata
from python_clients import Calls, Given, must
from rows import Row

TOPIC = "kafka-python"
GROUP = "kafka-python-group"
PLACE = TopicPartition(TOPIC, 0)


def calls(given: Given) -> list[Row]:
    admin = KafkaAdminClient(bootstrap_servers=given["bootstrap"].split(","))
    made = Calls("kafka-python")
    try:
        with made.of("topics"):
            topics(made, admin)
        producer = KafkaProducer(bootstrap_servers=given["bootstrap"].split(","))
        for number in range(10):
            producer.send(TOPIC, b"%d" % number, partition=0).get(15)
        producer.close()
        with made.of("configs"):
            configs(made, admin)
        with made.of("groups"):
            groups(made, admin)
        with made.of("records"):
            records(made, admin)
        with made.of("replicas"):
            replicas(made, admin)
        with made.of("cluster"):
            cluster(made, admin, given)
        with made.of("not served"):
            unserved(made, admin)
    finally:
        admin.close()
    return made.rows


def topics(made: Calls, admin: KafkaAdminClient) -> None:
    new = {TOPIC: {"num_partitions": 1, "replication_factor": 3, "configs": {"retention.ms": "600000"}}}
    made.ends("create_topics", lambda: admin.create_topics(new))
    made.shows("list_topics", "the topic", TOPIC, admin.list_topics)
    made.ends("create_partitions", lambda: admin.create_partitions({TOPIC: 2}))
    made.soon(
        "describe_topics",
        "two partitions",
        lambda: must(len(admin.describe_topics([TOPIC])[0]["partitions"]) == 2, "another count"),
    )
    made.shows(
        "describe_topic_partitions", "the topic", TOPIC, lambda: admin.describe_topic_partitions([TOPIC])
    )

    def deleted() -> None:
        admin.create_topics({"kafka-python-gone": {"num_partitions": 1, "replication_factor": 1}})
        admin.delete_topics(["kafka-python-gone"])

    made.ends("delete_topics", deleted)


def configs(made: Calls, admin: KafkaAdminClient) -> None:
    def retention() -> Any:
        # Without `modified` a value of the default would not be there.
        resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
        found = admin.describe_configs([resource], config_filter="all")
        return _find(found, "retention.ms")

    made.shows("describe_configs", "the topic's retention.ms", 600000, retention)

    def altered() -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC, configs={"retention.ms": "700000"})
        found = admin.alter_configs([resource])
        must("OK" in str(found) or "NoError" in str(found) or "None" in str(found), found)

    made.ends("alter_configs", altered)
    made.shows("describe_configs afterwards", "the new value", 700000, retention)

    def reset() -> None:
        admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, configs=["retention.ms"])])

    made.ends("reset_configs", reset)
    made.shows("describe_configs after that", "the default", 604800000, retention)

    def listed() -> None:
        # Its names of types are in small letters, whatever its documentation says.
        found = admin.list_config_resources()
        must(TOPIC in found["topic"] and "1" in found["broker"], found)

    made.soon("list_config_resources", "the topic and broker 1", listed)


def groups(made: Calls, admin: KafkaAdminClient) -> None:
    def offset() -> int:
        return int(admin.list_group_offsets({GROUP: [PLACE]})[GROUP][PLACE].offset)

    def altered() -> None:
        admin.alter_group_offsets(GROUP, {PLACE: OffsetAndMetadata(3, "", -1)})
        must(offset() == 3, offset())

    made.passes("alter_group_offsets", "the offset is listed", altered)
    made.passes("list_group_offsets", "the offset", lambda: must(offset() == 3, offset()))
    made.shows("list_groups", "the group", GROUP, admin.list_groups)
    made.shows("describe_groups", "it is empty", "Empty", lambda: admin.describe_groups([GROUP]))

    def reset() -> None:
        admin.reset_group_offsets(GROUP, {PLACE: OffsetSpec.LATEST})
        must(offset() == 10, offset())

    made.passes("reset_group_offsets", "the end offset", reset)

    def deleted() -> None:
        found = admin.delete_group_offsets(GROUP, [PLACE])
        must("NoError" in str(found[PLACE]), found)

    made.passes("delete_group_offsets", "no error", deleted)

    def gone() -> None:
        admin.alter_group_offsets(GROUP, {PLACE: OffsetAndMetadata(3, "", -1)})
        _no_error(admin.delete_groups([GROUP]))

    made.passes("delete_groups", "no error", gone)


def _no_error(found: object) -> None:
    said = str(found)
    must("Error" not in said.replace("NoError", ""), said)


def records(made: Calls, admin: KafkaAdminClient) -> None:
    def at(spec: Any, expected: int) -> None:
        found = admin.list_partition_offsets({PLACE: spec})[PLACE]
        must(found.offset == expected, found)

    made.passes("list_partition_offsets, earliest", "0", lambda: at(OffsetSpec.EARLIEST, 0))
    made.passes("list_partition_offsets, latest", "10", lambda: at(OffsetSpec.LATEST, 10))

    def producers() -> None:
        found = admin.describe_producers([PLACE])[PLACE]
        must("last_sequence=9" in str(found) or "'last_sequence': 9" in str(found), found)

    made.passes("describe_producers", "the last sequence of the idempotent one", producers)

    def deleted() -> None:
        found = admin.delete_records({PLACE: 4})
        must("4" in str(found[PLACE]), found)

    made.passes("delete_records", "low watermark 4", deleted)


def replicas(made: Calls, admin: KafkaAdminClient) -> None:
    def directories() -> None:
        found = str(admin.describe_log_dirs())
        must("data-2" in found and TOPIC in found, found[:300])

    made.passes("describe_log_dirs", "both directories and the topic", directories)

    def moved() -> None:
        error = admin.alter_partition_reassignments({PLACE: [3, 2, 1]})[PLACE]
        must(error is None or "NoError" in str(error), error)

    made.passes("alter_partition_reassignments", "no error", moved)
    made.soon(
        "list_partition_reassignments",
        "none is left",
        lambda: must(not admin.list_partition_reassignments(), admin.list_partition_reassignments()),
    )
    made.ends("elect_leaders", lambda: admin.elect_leaders(0, {TOPIC: [0]}, raise_errors=False))

    def other_directory() -> None:
        told = str(_find(admin.describe_log_dirs(brokers=[1]), "log_dir") or "")
        must(told, "no directory is told")
        found = admin.alter_replica_log_dirs({(TOPIC, 0, 1): told})
        _no_error(found)

    made.passes("alter_replica_log_dirs", "no error", other_directory)


def cluster(made: Calls, admin: KafkaAdminClient, given: Given) -> None:
    made.shows("describe_cluster", "the id", given["cluster"], admin.describe_cluster)
    made.shows("describe_features", "metadata.version", "metadata.version", admin.describe_features)
    made.shows("describe_metadata_quorum", "voters 1, 2 and 3", "voters", admin.describe_metadata_quorum)
    made.passes("api_versions", "the APIs", lambda: must(admin.api_versions(), "none"))
    made.passes(
        "get_broker_version_data",
        "the APIs of broker 1",
        lambda: must(admin.get_broker_version_data(1), "none"),
    )
    made.shows(
        "update_features, validate_only",
        "an answer for the feature",
        "metadata.version",
        lambda: admin.update_features({"metadata.version": 1}, validate_only=True),
    )


def unserved(made: Calls, admin: KafkaAdminClient) -> None:
    acl = ACL(
        "User:alice",
        "*",
        ACLOperation.READ,
        ACLPermissionType.ALLOW,
        ResourcePattern(ResourceType.TOPIC, "t"),
    )
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    some = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)

    def raised(errors: Iterable[object]) -> None:
        for each in errors:
            raise RuntimeError(repr(each))

    # These two return their errors.
    made.refused(
        "create_acls",
        "ACLs, without an authorizer",
        lambda: raised(admin.create_acls([acl])["failed"]),
    )
    made.refused("describe_acls", "ACLs, without an authorizer", lambda: admin.describe_acls(some))
    made.refused(
        "delete_acls",
        "ACLs, without an authorizer",
        lambda: raised(error for _, _, error in admin.delete_acls([some])),
    )
    made.passes(
        "describe_user_scram_credentials",
        "an answer",
        lambda: admin.describe_user_scram_credentials(),
    )
    made.refused("list_transactions", "transactions", lambda: admin.list_transactions())
    made.refused("describe_transactions", "transactions", lambda: admin.describe_transactions(["x"]))
    made.refused(
        "find_hanging_transactions", "transactions", lambda: admin.find_hanging_transactions(broker_ids=[1])
    )


def _find(found: Any, key: str) -> Any:
    """Return the value of the first entry of that name, at any depth."""
    if isinstance(found, dict):
        if key in found:
            return found[key]
        found = list(found.values())
    if isinstance(found, list | tuple):
        for each in found:
            if (value := _find(each, key)) is not None:
                return value
    return None
