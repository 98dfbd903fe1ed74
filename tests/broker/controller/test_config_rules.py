"""The controller's checks of AlterConfigs and IncrementalAlterConfigs, row by row in Kafka's order, and the
precedence of values against a model of it; and the values themselves."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from quorate.broker.controller.operations.alter_configs import alter_configs
from quorate.broker.controller.rpc import (
    AlterConfigsItem,
    AlterConfigsRequest,
    AlterConfigsResult,
    ConfigAlteration,
    ConfigOperation,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.config_synonyms import of_all_brokers, of_broker, of_group, of_topic
from quorate.broker.metadata.configs import (
    ALL_BROKERS,
    ConfigSource,
    StaticConfig,
    check_value,
    describe_all_brokers,
    describe_broker,
    describe_group,
    describe_topic,
    dynamic_values,
    effective,
    min_insync_replicas,
    unclean_elections,
)
from quorate.broker.metadata.metadata_records import Config, ConfigType, RemoveTopic
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.settings.all_keys import BROKER_KEYS, BROKER_VALUES, DYNAMIC_KEYS, GROUP_KEYS, TOPIC_KEYS
from quorate.broker.settings.config_key import Effect, UpdateMode
from quorate.error_code import ErrorCode

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT
TOPIC, BROKER, GROUP = ConfigType.TOPIC, ConfigType.BROKER, ConfigType.GROUP
Change = tuple[str, ConfigOperation, str | None]


def item(of: ConfigType, name: str, *changes: Change) -> AlterConfigsItem:
    return AlterConfigsItem(
        resource_type=of,
        resource_name=name,
        alterations=tuple(
            ConfigAlteration(name=key, operation=operation, value=value) for key, operation, value in changes
        ),
    )


def alter(cluster: Any, *items: AlterConfigsItem, **options: bool) -> tuple[AlterConfigsResult, ...]:
    request = AlterConfigsRequest(resources=items, **options)
    results: tuple[AlterConfigsResult, ...] = cluster.do(alter_configs(cluster.image, request)).resources
    return results


def altered(cluster: Any, of: ConfigType, name: str, *changes: Change, **options: bool) -> ErrorCode:
    (result,) = alter(cluster, item(of, name, *changes), **options)
    return result.error


def held(cluster: Any, of: ConfigType, name: str) -> dict[str, str]:
    return dict(cluster.image.configs(ConfigResource(of, name)))


@pytest.fixture
def topic(cluster: Any) -> Any:
    cluster.start(1)
    cluster.create("t", (1,))
    return cluster


RETENTION: Change = ("retention.ms", SET, "1000")
BAD: Change = ("retention.ms", SET, "x")
LONG: Change = ("log.cleanup.policy", SET, "x" * 32_768)
MIN_ISR = "min.insync.replicas"
RULES = [
    ("a key that is no list is not appended to", TOPIC, "t", [("retention.ms", APPEND, "1")], 40),
    ("an unknown key is not subtracted from", TOPIC, "t", [("no.such", SUBTRACT, "1")], 40),
    ("append comes before the name", TOPIC, "", [("retention.ms", APPEND, "1")], 40),
    ("a value may have 32,767 characters", TOPIC, "t", [("retention.ms", SET, "1" * 32_768)], 40),
    ("too long a value comes before the name", BROKER, "x", [LONG], 40),
    ("the smallest ISR of one broker", BROKER, "1", [(MIN_ISR, SET, "2")], 40),
    ("the smallest ISR of one broker, deleted", BROKER, "1", [(MIN_ISR, DELETE, None)], 40),
    ("the smallest ISR of all brokers, deleted", BROKER, "", [(MIN_ISR, DELETE, None)], 40),
    ("the smallest ISR of a topic, deleted", TOPIC, "t", [(MIN_ISR, DELETE, None)], 0),
    ("no topic's name", TOPIC, "", [RETENTION], 42),
    ("no topic's name comes before its values", TOPIC, "", [BAD], 42),
    ("a bad topic's name", TOPIC, "a/b", [RETENTION], 17),
    ("a bad topic's name comes before its values", TOPIC, "..", [BAD], 17),
    ("an unknown topic with a bad value", TOPIC, "u", [BAD], 40),
    ("an unknown topic with a good value", TOPIC, "u", [RETENTION], 3),
    ("a topic's unknown key", TOPIC, "t", [("no.such", SET, "1")], 40),
    ("an unknown key is deleted", TOPIC, "t", [("no.such", DELETE, None)], 0),
    ("a broker's key for a topic", TOPIC, "t", [("log.retention.ms", SET, "1")], 40),
    ("no group's name", GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], 42),
    ("no group's name comes before its values", GROUP, "", [("no.such", SET, "1")], 42),
    ("a group's unknown key", GROUP, "g", [("no.such", SET, "1")], 40),
    ("a group's bad value", GROUP, "g", [("consumer.session.timeout.ms", SET, "1")], 40),
    ("a group that has no members yet", GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")], 0),
    ("a broker that is no number", BROKER, "x", [("log.retention.ms", SET, "1")], 42),
    ("a broker below zero", BROKER, "-1", [("log.retention.ms", SET, "1")], 42),
    ("digits of another script", BROKER, "\u0661", [("log.retention.ms", SET, "1")], 42),
    ("a broker that is not registered", BROKER, "9", [("log.retention.ms", SET, "1")], 102),
    ("a broker's id is written without zeros", BROKER, "01", [("log.retention.ms", SET, "1")], 102),
    ("one broker", BROKER, "1", [("log.retention.ms", SET, "1")], 0),
    ("all brokers", BROKER, "", [("log.retention.ms", SET, "1")], 0),
    ("a key that needs a restart", BROKER, "", [("log.retention.hours", SET, "1")], 40),
    ("a key without effect", BROKER, "", [("log.segment.delete.delay.ms", SET, "1")], 0),
    ("contradicting lags", TOPIC, "t",
        [("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")], 40),
    ("a smallest ISR above the replicas, as in Kafka", TOPIC, "t", [(MIN_ISR, SET, "3")], 0),
    ("a retention below a segment, as in Kafka", TOPIC, "t", [("retention.bytes", SET, "1")], 0),
]  # fmt: skip


@pytest.mark.bug("KAFKA-16540")
@pytest.mark.parametrize(
    ("of", "name", "changes", "code"), [rule[1:] for rule in RULES], ids=[r[0] for r in RULES]
)
def test_a_resource_is_checked_by_kafkas_rules(
    topic: Any, of: ConfigType, name: str, changes: list[Change], code: int
) -> None:
    before = len(topic.log)
    (result,) = alter(topic, item(of, name, *changes))
    assert (int(result.error), bool(result.error_message)) == (code, code != 0)
    if code:
        assert len(topic.log) == before, "what was refused is not in the log"


def test_a_contradiction_with_what_is_set_already_is_refused(topic: Any) -> None:
    assert not altered(topic, TOPIC, "t", ("max.compaction.lag.ms", SET, "10"))
    assert altered(topic, TOPIC, "t", ("min.compaction.lag.ms", SET, "11")) is ErrorCode.INVALID_CONFIG
    assert not altered(
        topic, TOPIC, "t", ("min.compaction.lag.ms", SET, "11"), ("max.compaction.lag.ms", DELETE, None)
    )


def test_a_bad_resource_spoils_no_other_and_answers_keep_their_order(topic: Any) -> None:
    topic.create("u", (1,))
    results = alter(
        topic,
        item(TOPIC, "u", BAD),
        item(TOPIC, "t", RETENTION),
        item(TOPIC, "t", RETENTION),
        item(TOPIC, "v", RETENTION),
    )
    assert [(each.resource_name, int(each.error)) for each in results] == [
        ("u", 40), ("t", 0), ("t", 42), ("v", 3)
    ]  # fmt: skip
    assert (held(topic, TOPIC, "t"), held(topic, TOPIC, "u")) == ({"retention.ms": "1000"}, {})


def test_append_starts_from_the_own_value_else_from_the_built_in_default(topic: Any) -> None:
    """Not from what all brokers have."""
    alter(topic, item(BROKER, "", ("log.cleanup.policy", SET, "compact")))
    assert not altered(topic, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert held(topic, TOPIC, "t") == {"cleanup.policy": "delete,compact"}
    assert not altered(topic, TOPIC, "t", ("cleanup.policy", APPEND, "compact,delete"))
    assert held(topic, TOPIC, "t") == {"cleanup.policy": "delete,compact"}, "skips what is there"


def test_subtract_removes_what_is_equal_to_the_letter(topic: Any) -> None:
    key = "leader.replication.throttled.replicas"
    alter(topic, item(TOPIC, "t", (key, SET, "0:1,1:2,2:3")))
    assert not altered(topic, TOPIC, "t", (key, SUBTRACT, "1:2, 2:3"))
    assert held(topic, TOPIC, "t") == {key: "0:1,2:3"}


@pytest.mark.bug("KAFKA-14136")
def test_the_same_value_again_is_a_record_for_brokers_only(topic: Any) -> None:
    """Brokers reload."""
    for of, name, change, more in (
        (TOPIC, "t", RETENTION, 0),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"), 0),
        (BROKER, "1", ("log.retention.ms", SET, "1"), 1),
        (BROKER, "", ("log.retention.ms", SET, "1"), 1),
    ):
        alter(topic, item(of, name, change))
        before = len(topic.log)
        alter(topic, item(of, name, change))
        assert len(topic.log) == before + more, of


@pytest.mark.bug("redpanda commit 532f699")
def test_alter_configs_deletes_what_it_does_not_name(topic: Any) -> None:
    """Redpanda commit 532f699."""
    changes: list[Change] = [
        ("retention.ms", SET, "5"),
        ("segment.ms", SET, "6"),
        ("segment.bytes", SET, "77"),
    ]
    alter(topic, item(TOPIC, "t", *changes))
    assert not altered(topic, TOPIC, "t", ("segment.ms", SET, "8"), replace_all=True)
    assert held(topic, TOPIC, "t") == {"segment.ms": "8"}
    assert effective(topic.image, "t", static={"log.retention.ms": "9"}).retention_ms == 9
    assert not altered(topic, TOPIC, "t", replace_all=True)
    assert held(topic, TOPIC, "t") == {}


def test_alter_configs_deletes_nothing_where_it_is_refused(topic: Any) -> None:
    alter(topic, item(TOPIC, "t", RETENTION))
    assert altered(topic, TOPIC, "t", ("segment.ms", SET, "x"), replace_all=True) is ErrorCode.INVALID_CONFIG
    alter(topic, item(BROKER, "", (MIN_ISR, SET, "1")))
    assert (
        altered(topic, BROKER, "", ("log.retention.ms", SET, "1"), replace_all=True)
        is ErrorCode.INVALID_CONFIG
    )
    assert (held(topic, TOPIC, "t"), held(topic, BROKER, "")) == ({"retention.ms": "1000"}, {MIN_ISR: "1"})


@pytest.mark.bug("redpanda commit 78fcff7")
def test_a_value_equal_to_the_default_is_the_topics_own(topic: Any) -> None:
    """Redpanda commits 78fcff7, 6a26dba."""
    topic.create("u", (1,))
    alter(topic, item(TOPIC, "t", ("retention.ms", SET, TOPIC_KEYS["retention.ms"].initial)))

    def shown(name: str) -> tuple[str, ConfigSource]:
        return next(
            (each.value, each.source)
            for each in describe_topic(topic.image, name, static={})
            if each.name == "retention.ms"
        )

    default = TOPIC_KEYS["retention.ms"].initial
    assert shown("t") == (default, ConfigSource.DYNAMIC_TOPIC)
    assert shown("u") == (default, ConfigSource.DEFAULT)
    alter(topic, item(BROKER, "", ("log.retention.ms", SET, "5")))
    assert shown("t") == (default, ConfigSource.DYNAMIC_TOPIC)
    assert shown("u") == ("5", ConfigSource.DYNAMIC_DEFAULT_BROKER)


@pytest.mark.bug("AutoMQ issue 3556")
def test_a_topics_configs_go_with_it_also_from_its_namesake(topic: Any) -> None:
    """AutoMQ issue 3556."""
    alter(topic, item(TOPIC, "t", RETENTION))
    topic.append(RemoveTopic(topic_id=topic.image.topic("t").topic_id))
    topic.create("t", (1,))
    assert held(topic, TOPIC, "t") == {}


# Values


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
    altered(topic, BROKER, "", ("log.retention.ms", SET, "180000"))
    assert shown(static) == ("180000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    altered(topic, TOPIC, "t", ("retention.ms", SET, "7"))
    assert shown(static) == ("7", ConfigSource.DYNAMIC_TOPIC)
    assert effective(topic.image, "t", static=static).retention_ms == 7
    altered(topic, TOPIC, "t", ("retention.ms", DELETE, None))
    assert shown(static) == ("180000", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_a_broker_shows_its_keys_with_their_source(topic) -> None:
    shown = {each.name: each for each in describe_broker(topic.image, static={"log.roll.hours": "1"})}
    assert (shown["log.roll.hours"].value, shown["log.roll.hours"].source) == (
        "1",
        ConfigSource.STATIC_BROKER,
    )
    assert shown["log.retention.hours"].value == "168"


def test_lists_are_appended_to_and_subtracted_from(topic) -> None:
    assert altered(topic, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) is ErrorCode.NONE
    config = effective(topic.image, "t", static={})
    assert (config.cleanup_compact, config.cleanup_delete) == (True, True)
    assert altered(topic, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) is ErrorCode.NONE
    assert not effective(topic.image, "t", static={}).cleanup_delete
    assert altered(topic, TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact")) is ErrorCode.INVALID_CONFIG
    assert altered(topic, TOPIC, "t", ("retention.ms", APPEND, "1")) is ErrorCode.INVALID_CONFIG


INVALID = [
    (TOPIC, "t", name, value, ErrorCode.INVALID_CONFIG)
    for name, value in (
        ("no.such", "1"),
        ("retention.ms", "x"),
        ("remote.storage.enable", "true"),
        ("flush.messages", "1"),
        ("flush.ms", "1000"),
        ("preallocate", "maybe"),
        ("compression.zstd.level", "23"),
        ("leader.replication.throttled.replicas", "1-2"),
        ("retention.ms", "1_000"),
        ("retention.ms", "9" * 5000),
        ("retention.ms", "-2"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", str(1 << 31)),
        ("min.cleanable.dirty.ratio", "nan"),
        ("compression.type", "rar"),
        ("unclean.leader.election.enable", "yes"),
    )
]


@pytest.mark.parametrize(
    ("of", "resource", "name", "value", "refused"),
    [
        *INVALID,
        (TOPIC, "t", "retention.ms", None, ErrorCode.INVALID_REQUEST),
        (TOPIC, "none", "retention.ms", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "", "retention.ms", "1", ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_alter_configs_is_refused_as_a_whole(
    topic: Any, of: ConfigType, resource: str, name: str, value: str | None, refused: ErrorCode
) -> None:
    before = len(topic.log)
    assert altered(topic, of, resource, ("segment.ms", SET, "1000"), (name, SET, value)) is refused
    assert len(topic.log) == before


def test_settings_of_a_group_are_taken_as_far_as_a_record_has_room_for_its_name(cluster) -> None:
    """A longer name was decided upon, and then refused by the log: the active controller gave up, and so did
    the next one that the request was sent to."""
    change = ("consumer.session.timeout.ms", SET, "46000")
    assert altered(cluster, GROUP, "g" * 249, change) is ErrorCode.NONE
    assert cluster.replayed() is not None
    written = len(cluster.log)
    assert altered(cluster, GROUP, "g" * 250, change) is ErrorCode.INVALID_REQUEST
    assert len(cluster.log) == written == 1


def test_validating_or_setting_what_holds_writes_nothing(topic) -> None:
    assert altered(topic, TOPIC, "t", ("retention.ms", SET, "1"), validate_only=True) is ErrorCode.NONE
    assert altered(topic, TOPIC, "t", ("retention.ms", DELETE, None)) is ErrorCode.NONE
    before = len(topic.log)
    altered(topic, TOPIC, "t", ("retention.ms", SET, "1"))
    altered(topic, TOPIC, "t", ("retention.ms", SET, "1"))
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
    assert (
        altered(topic, TOPIC, "t", *((key, SET, value) for key, value in KAFKAS_HARMLESS.items()))
        is ErrorCode.NONE
    )
    assert effective(topic.image, "t", static={}) == before
    shown = {each.name: each.value for each in describe_topic(topic.image, "t", static={})}
    assert KAFKAS_HARMLESS.items() <= shown.items()


def test_a_value_that_asks_for_what_is_not_there_is_refused_with_a_sentence() -> None:
    for name, value, says in (
        ("remote.storage.enable", "true", "there is no tiered storage"),
        ("flush.messages", "1", "acks=all counts replicas, not syncs"),
    ):
        with pytest.raises(ApiError, match=says):
            check_value(name, value, of=TOPIC)


def test_a_gzip_level_is_1_to_9_or_the_usual_one() -> None:
    key = TOPIC_KEYS["compression.gzip.level"]
    for taken in ("-1", "1", "9"):
        key.check(taken)
    for refused in ("0", "10", "-2"):
        with pytest.raises(ValueError, match="between"):
            key.check(refused)


# Precedence

NAMES = sorted(DYNAMIC_KEYS.keys() & BROKER_KEYS.keys())
SCALES = {"retention.ms", "segment.ms"}
PLACES = ("topic", "own", "all", "file", "hours")


@given(st.sets(st.sampled_from(PLACES)), st.sampled_from(sorted(SCALES)))
def test_a_topics_value_is_that_of_the_first_place_that_has_one(
    new_cluster: Any, places: set[str], name: str
) -> None:
    """Topic, this broker, all brokers, the file (in ms before hours), Kafka's default (KIP-226)."""
    cluster = new_cluster()
    main, hours = TOPIC_KEYS[name].synonyms[0].name, TOPIC_KEYS[name].synonyms[-1].name

    def put(of: ConfigType, resource: str, key: str, value: str) -> None:
        cluster.append(Config(resource_type=of, resource_name=resource, name=key, value=value))

    if "topic" in places:
        put(TOPIC, "t", name, "1")
    if "own" in places:
        put(BROKER, "7", main, "2")
    if "all" in places:
        put(BROKER, "", main, "3")
    put(BROKER, "8", main, "99")  # another broker's
    static = {main: "4"} if "file" in places else {}
    static |= {hours: "5"} if "hours" in places else {}
    expected = next(
        (
            (value, source)
            for place, value, source in (
                ("topic", "1", ConfigSource.DYNAMIC_TOPIC),
                ("own", "2", ConfigSource.DYNAMIC_BROKER),
                ("all", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
                ("file", "4", ConfigSource.STATIC_BROKER),
                ("hours", str(5 * 3_600_000), ConfigSource.STATIC_BROKER),
            )
            if place in places
        ),
        (TOPIC_KEYS[name].initial, ConfigSource.DEFAULT),
    )
    of_node = StaticConfig(static, node_id=7)
    shown = {each.name: each for each in describe_topic(cluster.image, "t", static=of_node)}[name]
    assert (shown.value, shown.source) == expected
    assert str(getattr(effective(cluster.image, "t", static=of_node), name.replace(".", "_"))) == expected[0]
    synonyms = list(of_topic(cluster.image, "t", TOPIC_KEYS[name], static=of_node))
    assert synonyms[0].source == expected[1]
    assert [each.source for each in synonyms] == sorted(each.source for each in synonyms)
    assert len(synonyms) == len(places) + 1


def test_a_nodes_own_value_of_unclean_elections_is_its_own(topic: Any) -> None:
    alter(topic, item(BROKER, "1", ("unclean.leader.election.enable", SET, "true")))
    assert unclean_elections(topic.image, "t", static=StaticConfig({}, node_id=1))
    assert not unclean_elections(topic.image, "t", static=StaticConfig({}, node_id=2))
    assert not unclean_elections(topic.image, "t", static={})


@pytest.mark.bug("KAFKA-16540")
def test_the_smallest_isr_of_all_brokers_is_that_of_every_node(topic: Any) -> None:
    alter(topic, item(BROKER, "", (MIN_ISR, SET, "2")))
    for node in (1, 2):
        assert min_insync_replicas(topic.image, "t", static=StaticConfig({}, node_id=node)) == 2


def test_brokers_show_their_own_value_before_that_of_all(topic: Any) -> None:
    alter(topic, item(BROKER, "", ("max.connections", SET, "20")))
    alter(topic, item(BROKER, "1", ("max.connections", SET, "30")))
    static = StaticConfig({"max.connections": "40"}, node_id=1)

    def shown(name: str, of_node: StaticConfig) -> Any:
        return {each.name: each for each in describe_broker(topic.image, static=of_node)}[name]

    assert (shown("max.connections", static).value, shown("max.connections", static).source) == ("30", 2)
    synonyms = of_broker(topic.image, "max.connections", static=static)
    assert [(each.value, int(each.source)) for each in synonyms] == [
        ("30", 2), ("20", 3), ("40", 4), ("10000", 5)
    ]  # fmt: skip
    assert dynamic_values(topic.image, static) == {"max.connections": "30"}
    other = StaticConfig({}, node_id=2)
    assert (shown("max.connections", other).value, shown("max.connections", other).source) == ("20", 3)
    assert dynamic_values(topic.image, other) == {"max.connections": "20"}


def test_a_brokers_key_says_whether_it_needs_a_restart(topic: Any) -> None:
    shown = {each.name: each for each in describe_broker(topic.image, static={})}
    assert set(shown) == set(BROKER_VALUES)
    assert {name for name, each in shown.items() if not each.read_only} == set(DYNAMIC_KEYS)
    assert not shown["log.retention.ms"].read_only
    assert shown["log.retention.hours"].read_only


def test_a_dynamic_key_is_supported_and_counts_most() -> None:
    for name, key in DYNAMIC_KEYS.items():
        assert key.update is UpdateMode.CLUSTER_WIDE, name
        assert key.effect is Effect.EFFECTIVE or (key.effect is Effect.NONE and key.why), name
        key.check(key.initial)
        if name in BROKER_KEYS:
            of_topics, synonym = BROKER_KEYS[name]
            assert synonym is of_topics.synonyms[0], name


def test_all_brokers_show_only_what_is_set_for_them(topic: Any) -> None:
    assert list(describe_all_brokers(topic.image)) == []
    alter(topic, item(BROKER, "", ("log.segment.bytes", SET, "99")))
    (shown,) = describe_all_brokers(topic.image)
    assert (shown.name, shown.value, shown.source) == ("log.segment.bytes", "99", 3)
    assert [(each.name, int(each.source)) for each in of_all_brokers(topic.image, shown.name)] == [
        ("log.segment.bytes", 3)
    ]
    assert ALL_BROKERS in list(topic.image.configured())


def test_a_group_shows_its_own_value_and_the_default(topic: Any) -> None:
    key = GROUP_KEYS["consumer.session.timeout.ms"]

    def shown() -> tuple[str, int]:
        return next(
            (each.value, int(each.source))
            for each in describe_group(topic.image, "g")
            if each.name == key.name
        )

    assert shown() == ("45000", 5)
    alter(topic, item(GROUP, "g", (key.name, SET, "50000")))
    assert shown() == ("50000", 8)
    assert [(each.value, int(each.source)) for each in of_group(topic.image, "g", key)] == [
        ("50000", 8), ("45000", 5)
    ]  # fmt: skip


LONGS, INTS, RATIO = "between 0 and 9223372036854775807", "between 0 and 2147483647", "between 0 and 1"
BAD_CLEANING: list[tuple[ConfigType, str, str, str]] = [
    (TOPIC, "cleanup.policy", "compress", "one or more of: compact, delete"),
    (TOPIC, "cleanup.policy", "compact;delete", "one or more of: compact, delete"),
    (TOPIC, "delete.retention.ms", "-1", LONGS),
    (TOPIC, "delete.retention.ms", "a day", "a whole number"),
    (TOPIC, "min.cleanable.dirty.ratio", "1.01", RATIO),
    (TOPIC, "min.cleanable.dirty.ratio", "nan", RATIO),
    (TOPIC, "min.cleanable.dirty.ratio", "half", "a number"),
    (TOPIC, "min.compaction.lag.ms", "-1", LONGS),
    (TOPIC, "max.compaction.lag.ms", "0", "between 1 and 9223372036854775807"),
    (BROKER, "log.cleanup.policy", "none", "one or more of: compact, delete"),
    (BROKER, "log.cleaner.delete.retention.ms", "1.5", "a whole number"),
    (BROKER, "log.cleaner.min.cleanable.ratio", "-0.1", RATIO),
    (BROKER, "log.cleaner.min.compaction.lag.ms", "9223372036854775808", LONGS),
    (BROKER, "log.cleaner.max.compaction.lag.ms", "-1", "between 1 and 9223372036854775807"),
    (BROKER, "log.cleaner.threads", "-1", INTS),
    (BROKER, "log.cleaner.backoff.ms", "-1", LONGS),
    (BROKER, "log.cleaner.dedupe.buffer.size", "much", "a whole number"),
    (BROKER, "log.cleaner.io.max.bytes.per.second", "fast", "a number"),
]


@pytest.mark.parametrize(("of", "key", "value", "remedy"), BAD_CLEANING)
def test_a_bad_value_of_compaction_is_refused_with_its_key_and_what_may_stand_there(
    topic: Any, of: ConfigType, key: str, value: str, remedy: str
) -> None:
    (result,) = alter(topic, item(of, "t" if of is TOPIC else "", (key, SET, value)))
    assert result.error is ErrorCode.INVALID_CONFIG
    said = result.error_message or ""
    assert key in said and remedy in said, said
    assert held(topic, of, "t" if of is TOPIC else "") == {}
