"""New offsets: what the command line says, and what becomes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.admin.admin_client import TopicPartition
from quorate.broker.admin.groups import MemberView, partition_views_of
from quorate.cli.commands.offset_resets import (
    ResetError,
    ResetTarget,
    Scope,
    new_offsets,
    parse_duration_ms,
    parse_offsets_file,
    parse_topics,
)
from quorate.cli.console.cli_errors import UsageError
from quorate.cli.console.times import parse_time_ms

T0 = TopicPartition("t", 0)


def reset(target: ResetTarget, *, committed: int | None = 50, at_time: int | None = None) -> int:
    """Reset the offset of a partition whose log goes from 10 to 100."""
    found = new_offsets(
        target,
        [T0],
        committed={} if committed is None else {T0: committed},
        starts={T0: 10},
        ends={T0: 100},
        at_time={} if at_time is None else {T0: at_time},
    )
    return found[T0]


def test_each_target_has_its_offset() -> None:
    assert reset(ResetTarget(earliest=True)) == 10
    assert reset(ResetTarget(latest=True)) == 100
    assert reset(ResetTarget(offset=70)) == 70
    assert reset(ResetTarget(shift_by=-20)) == 30
    assert reset(ResetTarget(timestamp_ms=5), at_time=60) == 60
    assert reset(ResetTarget(file={T0: 33})) == 33


def test_a_time_after_the_last_record_is_the_log_end() -> None:
    assert reset(ResetTarget(timestamp_ms=5)) == 100


@given(st.integers(0, 300), st.integers(-300, 300))
def test_a_new_offset_is_within_the_log(offset: int, shift: int) -> None:
    for target in (ResetTarget(offset=offset), ResetTarget(shift_by=shift), ResetTarget(file={T0: offset})):
        assert 10 <= reset(target) <= 100


def test_nothing_is_shifted_from_nowhere() -> None:
    with pytest.raises(ResetError, match="no committed offset of t-0"):
        reset(ResetTarget(shift_by=1), committed=None)


def test_topics_are_named_whole_or_by_partition() -> None:
    assert parse_topics(["a", "b:0,2", "a", "b:2"]) == Scope(topics=("a",), partitions=(("b", 0), ("b", 2)))


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:x", "t:-1", "t:1:2"])
def test_a_topic_that_is_not_named_right_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--topic"):
        parse_topics([text])


def test_a_time_is_in_utc_unless_it_names_a_zone() -> None:
    assert parse_time_ms("1970-01-01T00:00:01.500", option="--to-datetime") == 1500
    assert parse_time_ms("1970-01-01T02:00:00+02:00", option="--to-datetime") == 0
    assert parse_time_ms("1970-01-02T00:00:00Z", option="--to-datetime") == 86_400_000
    for text in ("", "yesterday", "2026-13-01T00:00:00"):
        with pytest.raises(UsageError, match="--to-datetime"):
            parse_time_ms(text, option="--to-datetime")


def test_a_duration_is_of_days_hours_minutes_and_seconds() -> None:
    assert parse_duration_ms("P1DT2H3M4.5S") == ((26 * 60 + 3) * 60 + 4.5) * 1000
    assert parse_duration_ms("PT0S") == 0
    for text in ("", "P", "PT", "P1DT", "1D", "P-1D", "P1M", "P99999999999D"):
        with pytest.raises(UsageError, match="--by-duration"):
            parse_duration_ms(text)


def test_a_file_of_offsets_is_read_by_line() -> None:
    assert parse_offsets_file('"t",0,5\n\n u , 1 , 7 \n') == {("t", 0): 5, ("u", 1): 7}
    for text, problem in (
        ("t,0,5\nt,0,6", "line 2"),
        ("t,0", "line 1"),
        ("t,0,-5", "line 1"),
        ("\n", "no off"),
    ):
        with pytest.raises(UsageError, match=problem):
            parse_offsets_file(text)


def test_every_partition_that_is_assigned_or_committed_has_a_row() -> None:
    member = MemberView(
        member_id="m", instance_id=None, client_id="c", host="/h", partitions=(("t", 0), ("t", 2))
    )
    rows = partition_views_of(
        [member], {("t", 0): 5, ("t", 1): 9, ("u", 0): 1}, {("t", 0): 8, ("t", 1): 4, ("t", 2): 3}
    )
    assert [(each.topic, each.partition, each.committed, each.end, each.lag) for each in rows] == [
        ("t", 0, 5, 8, 3),
        ("t", 1, 9, 4, 0),
        ("t", 2, None, 3, None),
        ("u", 0, 1, None, None),
    ]
    assert [each.member for each in rows] == [member, None, member, None]
