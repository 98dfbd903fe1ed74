"""The valid options, and the errors for others."""

import pickle
import re
import time

import pytest

from quorate.runtime.network import Address
from quorate.spark_source.source import history_of
from quorate.spark_source.source_options import (
    AtOffset,
    AtTimestamp,
    Bound,
    Edge,
    ViewName,
    for_batch,
    for_stream,
    parse_options,
)
from quorate.spark_source.spark_errors import OptionError


def test_names_are_compared_without_case_as_spark_passes_them() -> None:
    options = parse_options({"BOOTSTRAPSERVERS": "a:1, [::1]:2", "View": "Partitions", "minpartitions": "4"})
    assert options.bootstrap_servers == (Address("a", 1), Address("::1", 2))
    assert options.view is ViewName.PARTITIONS
    assert options.min_partitions == 4


def test_the_name_of_sparks_kafka_source_is_understood() -> None:
    assert parse_options({"kafka.bootstrap.servers": "h:9092"}).bootstrap_servers == (Address("h", 9092),)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_path_may_be_a_file_url(prefix: str) -> None:
    assert parse_options({"path": f"{prefix}/data/node"}).path == "/data/node"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("earliest", Edge.EARLIEST),
        ("LATEST", Edge.LATEST),
        ("17", AtOffset(17)),
        ('{"__cluster_metadata":{"0":23}}', AtOffset(23)),
        ('{"__cluster_metadata":{"0":-2}}', Edge.EARLIEST),
        ('{"__cluster_metadata":{"0":-1}}', Edge.LATEST),
    ],
)
def test_offsets_are_words_numbers_or_kafkas_json(text: str, bound: Bound) -> None:
    assert parse_options({"path": "p", "startingOffsets": text}).starting == bound


@pytest.mark.parametrize(
    "text",
    [
        "first",
        "-3",
        "1.5",
        "[1]",
        "{}",
        '{"orders":{"0":1}}',
        '{"__cluster_metadata":{"1":1}}',
        '{"__cluster_metadata":{"0":-3}}',
        '{"__cluster_metadata":{"0":true}}',
    ],
)
def test_offsets_that_are_none_are_named(text: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets"):
        parse_options({"path": "p", "startingOffsets": text})


def test_timestamps_are_milliseconds() -> None:
    options = parse_options({"path": "p", "startingTimestamp": "5", "endingTimestamp": "9"})
    assert (options.starting, options.ending) == (AtTimestamp(5), AtTimestamp(9))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "path.*bootstrapServers"),
        ({"path": "p", "bootstrapServers": "h:1"}, "contradict"),
        ({"bootstrapServers": "h:1", "kafka.bootstrap.servers": "h:1"}, "contradict"),
        ({"path": "p", "startingOffsets": "1", "startingTimestamp": "1"}, "contradict"),
        ({"path": "p", "endingOffsets": "1", "endingTimestamp": "1"}, "contradict"),
        (
            {"path": "p", "startingOffset": "1"},
            "unknown option 'startingOffset'; known are .*startingOffsets",
        ),
        ({"path": ""}, "path is empty"),
        ({"bootstrapServers": "host"}, "'host' is not host:port"),
        ({"path": "p", "view": "leaders"}, "records, decoded, changes, partitions, topics, brokers, configs"),
        ({"path": "p", "failOnDataLoss": "yes"}, "true or false"),
        ({"path": "p", "maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"path": "p", "minPartitions": "many"}, "an integer"),
        ({"path": "p", "endingOffsets": "earliest"}, "nothing to read"),
        ({"bootstrapServers": "h:1", "readUncommitted": "true"}, "path only"),
        ({"path": "p", "fetchOffset.numRetries": "3"}, "bootstrapServers only"),
        ({"path": "p", "view": "topics", "includeControl": "true"}, "view=records only"),
        ({"path": "p", "startingOffsetsByTimestampStrategy": "latest"}, "needs startingTimestamp"),
        (
            {"path": "p", "startingOffsetsByTimestamp": "1"},
            "startingOffsetsByTimestamp is '1'.*MS_SINCE_1970",
        ),
        ({"path": "p", "startingOffsetsByTimestamp": "1", "startingTimestamp": "1"}, "contradict"),
        ({"path": "p", "minOffsetsPerTrigger": "100", "maxOffsetsPerTrigger": "10"}, "100, more than .* 10"),
        ({"path": "p", "minOffsetsPerTrigger": "-1"}, "at least 1"),
        ({"path": "p", "minOffsetsPerTrigger": "0"}, "at least 1"),
        ({"path": "p", "minOffsetsPerTrigger": "ten"}, "an integer"),
        ({"path": "p", "maxTriggerDelay": "5 parsecs"}, "maxTriggerDelay is '5 parsecs'.*15m"),
        ({"path": "p", "readChangeFeed": "true", "view": "records"}, "not for view=records"),
        ({"path": "p", "view": "topics", "versionAsOf": "1", "timestampAsOf": "1"}, "contradict"),
        ({"path": "p", "view": "changes", "versionAsOf": "1"}, "state of an entity.*endingOffsets"),
        (
            {"path": "p", "view": "topics", "readChangeFeed": "true", "timestampAsOf": "1"},
            "state of an entity",
        ),
        ({"path": "p", "view": "topics", "startingOffsets": "1"}, "add readChangeFeed=true"),
        ({"path": "p", "view": "topics", "endingOffsets": "1"}, "add readChangeFeed=true"),
        ({"path": "p", "view": "topics", "timestampAsOf": "yesterday"}, "'yesterday'.*2026-11-22T17:40"),
        ({"path": "p", "unknownRecords": "skip"}, "fail or mark"),
        ({"path": "p", "subscribe": "orders"}, "reads __cluster_metadata only: leave subscribe out"),
        ({"path": "p", "kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism is for bootstrapServers only"),
    ],
)
def test_an_unknown_malformed_or_contradictory_option_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parse_options(options)


def test_a_batch_query_passes_over_what_only_a_stream_has(caplog: pytest.LogCaptureFixture) -> None:
    options = parse_options({"path": "p", "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2"})
    assert for_batch(options) == options
    assert "maxOffsetsPerTrigger is for streams" in caplog.text
    assert "minOffsetsPerTrigger is for streams" in caplog.text


def test_a_batch_query_has_something_to_read() -> None:
    with pytest.raises(OptionError, match="nothing to read"):
        for_batch(parse_options({"path": "p", "startingOffsets": "latest"}))


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_a_stream_refuses_an_end(name: str) -> None:
    with pytest.raises(OptionError, match="endingOffsets"):
        for_stream(parse_options({"path": "p", name: "5"}))


def test_a_stream_refuses_a_state() -> None:
    with pytest.raises(OptionError, match="add readChangeFeed=true"):
        for_stream(parse_options({"path": "p", "view": "topics"}))


def test_a_change_feed_without_a_view_is_that_of_everything() -> None:
    assert parse_options({"path": "p", "readChangeFeed": "true"}).view is ViewName.CHANGES


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("5s", 5_000), ("15m", 900_000), ("15 min", 900_000), ("1h", 3_600_000), ("250", 250)],
)
def test_a_delay_has_a_unit_as_spark_writes_it(text: str, ms: int) -> None:
    assert parse_options({"path": "p", "maxTriggerDelay": text}).max_trigger_delay_ms == ms


@pytest.mark.parametrize(
    "text",
    [
        "1700000000123",
        "2023-11-14T22:13:20.123Z",
        "2023-11-14 22:13:20.123",
        "2023-11-14T23:13:20.123+01:00",
        "2023-11-15T03:43:20.123999999+05:30",
    ],
)
def test_a_time_is_the_same_wherever_it_is_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        given = parse_options({"path": "p", "view": "topics", "timestampAsOf": text})
        assert given.as_of == AtTimestamp(1_700_000_000_123), zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subscribe", "__cluster_metadata"),
        ("includeHeaders", "true"),
        ("groupIdPrefix", "g"),
        ("kafka.fetch.max.bytes", "1"),
    ],
)
def test_an_option_of_sparks_kafka_source_that_means_nothing_is_taken_with_a_warning(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert parse_options({"path": "p", name: value}) == parse_options({"path": "p"})
    assert f"the option {name} of Spark's Kafka source means nothing" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol: it is TLS; it must be one of"),
        ({"kafka.security.protocol": "SASL_PLAINTEXT"}, "kafka.sasl.mechanism: it is ''"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/nowhere.pem"},
            "kafka.ssl.*: the authorities /nowhere.pem can't be read",
        ),
        (
            {"kafka.security.protocol": "SSL", "kafka.SSL.truststore.type": "JKS"},
            "kafka.ssl.truststore.type: quorate reads PEM",
        ),
    ],
)
def test_a_protection_that_cant_be_used_is_refused_by_its_key(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        history_of(parse_options({"bootstrapServers": "h:1", **options}))


def test_a_password_is_carried_to_executors_and_shown_nowhere() -> None:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username=bob password=hunter2;"
    options = parse_options(
        {
            "bootstrapServers": "h:1",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": jaas,
        }
    )
    log = history_of(options)
    assert "hunter2" not in repr(options) + repr(log)
    carried = pickle.loads(pickle.dumps(log))
    assert carried == log
    assert b"hunter2" in pickle.dumps(carried)
