"""The valid options, and the errors for others."""

import pytest

from quorate.runtime.network import Address
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
        ({"path": "p", "view": "leaders"}, "records, partitions, topics, brokers"),
        ({"path": "p", "failOnDataLoss": "yes"}, "true or false"),
        ({"path": "p", "maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"path": "p", "minPartitions": "many"}, "an integer"),
        ({"path": "p", "endingOffsets": "earliest"}, "nothing to read"),
        ({"bootstrapServers": "h:1", "readUncommitted": "true"}, "path only"),
        ({"path": "p", "fetchOffset.numRetries": "3"}, "bootstrapServers only"),
        ({"path": "p", "view": "topics", "includeControl": "true"}, "view=records only"),
        ({"path": "p", "startingOffsetsByTimestampStrategy": "latest"}, "needs startingTimestamp"),
    ],
)
def test_an_unknown_malformed_or_contradictory_option_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parse_options(options)


def test_a_batch_query_refuses_what_only_a_stream_has() -> None:
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger"):
        for_batch(parse_options({"path": "p", "maxOffsetsPerTrigger": "5"}))
    with pytest.raises(OptionError, match="nothing to read"):
        for_batch(parse_options({"path": "p", "startingOffsets": "latest"}))


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_a_stream_refuses_an_end(name: str) -> None:
    with pytest.raises(OptionError, match="endingOffsets"):
        for_stream(parse_options({"path": "p", name: "5"}))
