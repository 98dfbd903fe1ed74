import pytest

from quorate.broker.controller.operations.alter_configs import alter_configs
from quorate.broker.controller.rpc import (
    AlterConfigsItem,
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigOperation,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.configs import (
    ConfigSource,
    check_value,
    describe_broker,
    describe_topic,
    effective,
)
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.settings.all_keys import TOPIC_KEYS
from quorate.broker.settings.config_key import Effect
from quorate.error_code import ErrorCode


def alter(cluster, *changes, of=ConfigType.TOPIC, name="t", validate_only=False) -> ErrorCode:
    item = AlterConfigsItem(
        resource_type=of,
        resource_name=name,
        alterations=tuple(
            ConfigAlteration(name=key, operation=operation, value=value) for key, operation, value in changes
        ),
    )
    request = AlterConfigsRequest(resources=(item,), validate_only=validate_only)
    return cluster.do(alter_configs(cluster.image, request)).resources[0].error


SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT


@pytest.fixture
def topic(cluster):
    cluster.start(1)
    cluster.create("t", (1,))
    return cluster


def test_every_default_is_legal_and_effective(cluster) -> None:
    for key in TOPIC_KEYS.values():
        key.check(key.default)
    config = effective(cluster.image, "t", static={})
    assert config.retention_ms == 604_800_000
    assert config.min_insync_replicas == 1
    assert config.cleanup_delete
    assert not config.cleanup_compact


def test_a_value_comes_from_the_topic_then_all_brokers_then_the_node_then_kafka(topic) -> None:
    def shown(static):
        [each] = [
            each for each in describe_topic(topic.image, "t", static=static) if each.name == "retention.ms"
        ]
        return each.value, each.source

    assert shown({}) == ("604800000", ConfigSource.DEFAULT)
    static = {"log.retention.hours": "2"}
    assert shown(static) == ("7200000", ConfigSource.STATIC_BROKER)
    assert shown({"log.retention.hours": "-1"}) == ("-1", ConfigSource.STATIC_BROKER)
    assert shown({**static, "log.retention.ms": "5"}) == ("5", ConfigSource.STATIC_BROKER)
    alter(topic, ("log.retention.ms", SET, "180000"), of=ConfigType.BROKER, name="")
    assert shown(static) == ("180000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    alter(topic, ("retention.ms", SET, "7"))
    assert shown(static) == ("7", ConfigSource.DYNAMIC_TOPIC)
    assert effective(topic.image, "t", static=static).retention_ms == 7
    alter(topic, ("retention.ms", DELETE, None))
    assert shown(static) == ("180000", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_a_broker_shows_its_keys_with_their_source(topic) -> None:
    shown = {each.name: each for each in describe_broker(topic.image, static={"log.roll.hours": "1"})}
    assert (shown["log.roll.hours"].value, shown["log.roll.hours"].source) == (
        "1",
        ConfigSource.STATIC_BROKER,
    )
    assert shown["log.retention.hours"].value == "168"


def test_lists_are_appended_to_and_subtracted_from(topic) -> None:
    assert alter(topic, ("cleanup.policy", APPEND, "compact")) is ErrorCode.NONE
    config = effective(topic.image, "t", static={})
    assert (config.cleanup_compact, config.cleanup_delete) == (True, True)
    assert alter(topic, ("cleanup.policy", SUBTRACT, "delete")) is ErrorCode.NONE
    assert not effective(topic.image, "t", static={}).cleanup_delete
    assert alter(topic, ("cleanup.policy", SUBTRACT, "compact")) is ErrorCode.INVALID_CONFIG
    assert alter(topic, ("retention.ms", APPEND, "1")) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("change", "resource", "error"),
    [
        (("no.such", SET, "1"), {}, ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "x"), {}, ErrorCode.INVALID_CONFIG),
        (("remote.storage.enable", SET, "true"), {}, ErrorCode.INVALID_CONFIG),
        (("flush.messages", SET, "1"), {}, ErrorCode.INVALID_CONFIG),
        (("flush.ms", SET, "1000"), {}, ErrorCode.INVALID_CONFIG),
        (("preallocate", SET, "maybe"), {}, ErrorCode.INVALID_CONFIG),
        (("compression.zstd.level", SET, "23"), {}, ErrorCode.INVALID_CONFIG),
        (("leader.replication.throttled.replicas", SET, "1-2"), {}, ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "1_000"), {}, ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "9" * 5000), {}, ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "-2"), {}, ErrorCode.INVALID_CONFIG),
        (("min.insync.replicas", SET, "0"), {}, ErrorCode.INVALID_CONFIG),
        (("min.insync.replicas", SET, str(1 << 31)), {}, ErrorCode.INVALID_CONFIG),
        (("min.cleanable.dirty.ratio", SET, "nan"), {}, ErrorCode.INVALID_CONFIG),
        (("compression.type", SET, "rar"), {}, ErrorCode.INVALID_CONFIG),
        (("unclean.leader.election.enable", SET, "yes"), {}, ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), {}, ErrorCode.INVALID_REQUEST),
        (("retention.ms", SET, "1"), {"name": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("retention.ms", SET, "1"), {"of": ConfigType.BROKER, "name": ""}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_alter_configs_is_refused_as_a_whole(topic, change, resource, error: ErrorCode) -> None:
    before = len(topic.log)
    good = ("segment.ms", SET, "1000")
    assert alter(topic, good, change, **resource) is error
    assert len(topic.log) == before


def test_settings_of_a_group_are_taken_as_far_as_a_record_has_room_for_its_name(cluster) -> None:
    """A longer name was decided upon, and then refused by the log: the active controller gave up, and so did
    the next one that the request was sent to."""
    change = ("consumer.session.timeout.ms", SET, "46000")
    assert alter(cluster, change, of=ConfigType.GROUP, name="g" * 249) is ErrorCode.NONE
    assert cluster.replayed() is not None
    written = len(cluster.log)
    assert alter(cluster, change, of=ConfigType.GROUP, name="g" * 250) is ErrorCode.INVALID_REQUEST
    assert len(cluster.log) == written == 1


def test_validating_or_setting_what_holds_writes_nothing(topic) -> None:
    assert alter(topic, ("retention.ms", SET, "1"), validate_only=True) is ErrorCode.NONE
    assert alter(topic, ("retention.ms", DELETE, None)) is ErrorCode.NONE
    before = len(topic.log)
    alter(topic, ("retention.ms", SET, "1"))
    alter(topic, ("retention.ms", SET, "1"))
    assert len(topic.log) == before + 1


KAFKAS_HARMLESS = {
    "file.delete.delay.ms": "1000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "local.retention.bytes": "-2",
    "local.retention.ms": "1000",
    "preallocate": "true",
    "remote.log.copy.disable": "true",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "segment.jitter.ms": "1000",
}


def test_kafkas_harmless_keys_are_taken_and_change_nothing(topic) -> None:
    assert set(KAFKAS_HARMLESS) == {key.name for key in TOPIC_KEYS.values() if key.effect is Effect.NONE}
    before = effective(topic.image, "t", static={})
    assert alter(topic, *((key, SET, value) for key, value in KAFKAS_HARMLESS.items())) is ErrorCode.NONE
    assert effective(topic.image, "t", static={}) == before
    shown = {each.name: each.value for each in describe_topic(topic.image, "t", static={})}
    assert KAFKAS_HARMLESS.items() <= shown.items()


def test_a_value_that_asks_for_what_is_not_there_is_refused_with_a_sentence() -> None:
    for name, value, says in (
        ("remote.storage.enable", "true", "there is no tiered storage"),
        ("flush.messages", "1", "acks=all counts replicas, not syncs"),
    ):
        with pytest.raises(ApiError, match=says):
            check_value(name, value, of=ConfigType.TOPIC)


def test_a_gzip_level_is_1_to_9_or_the_usual_one() -> None:
    key = TOPIC_KEYS["compression.gzip.level"]
    for taken in ("-1", "1", "9"):
        key.check(taken)
    for refused in ("0", "10", "-2"):
        with pytest.raises(ValueError, match="between"):
            key.check(refused)
