"""The anomalies of a log: each found in a history that has it, none in histories that a log could have."""

import random
import time
from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.simulation.histories.log_anomalies import (
    Anomaly,
    LogOperation,
    Moved,
    Polled,
    SendOutcome,
    Sent,
    find_anomalies,
)
from quorate.simulation.violations import SafetyViolation


def kinds(*operations: LogOperation, read_to_end: bool = False) -> set[str]:
    return {kind.value for kind in find_anomalies(operations, read_to_end=read_to_end).counts}


def sent(client: str, *placed: tuple[int, Hashable]) -> Sent:
    return Sent(client, "t-0", [value for _, value in placed], [offset for offset, _ in placed])


def polled(client: str, *records: tuple[int, Hashable]) -> Polled:
    return Polled(client, "t-0", records)


def test_a_log_that_does_as_it_should_has_no_anomalies() -> None:
    assert (
        kinds(
            sent("p", (0, "a"), (1, "b")),
            Sent("q", "t-0", ["never heard of"], outcome=SendOutcome.UNKNOWN),
            Sent("q", "t-0", ["failed"], outcome=SendOutcome.FAILED),
            # Offset 2 is a control record: no value is known there, so nothing is skipped.
            sent("p", (3, "c")),
            polled("c", (0, "a"), (1, "b"), (3, "c")),
            polled("d", (0, "a")),
            polled("d", (1, "b"), (3, "c"), (4, "never heard of")),
            polled("d"),
            read_to_end=True,
        )
        == set()
    )


BAD: Sequence[tuple[str, tuple[LogOperation, ...]]] = (
    ("lost-write", (sent("p", (0, "a")), sent("q", (1, "b")), polled("c", (1, "b")))),
    (
        "aborted-read",
        (Sent("p", "t-0", ["a"], outcome=SendOutcome.FAILED), polled("c", (0, "a"))),
    ),
    ("duplicate", (polled("c", (0, "a")), polled("c", (1, "a")))),
    ("inconsistent-offsets", (polled("c", (0, "a")), polled("d", (0, "b")))),
    ("int-nonmonotonic-poll", (polled("c", (1, "b"), (0, "a")),)),
    ("int-poll-skip", (polled("d", (1, "b")), polled("c", (0, "a"), (2, "c")))),
    ("nonmonotonic-poll", (polled("c", (0, "a"), (1, "b")), polled("c", (1, "b")))),
    ("poll-skip", (polled("d", (1, "b")), polled("c", (0, "a")), polled("c", (2, "c")))),
    ("int-nonmonotonic-send", (sent("p", (1, "b"), (0, "a")), polled("c", (0, "a"), (1, "b")))),
    (
        "nonmonotonic-send",
        (sent("p", (1, "b")), sent("p", (0, "a")), polled("c", (0, "a"), (1, "b"))),
    ),
    ("unseen", (sent("p", (0, "a")),)),
)


@pytest.mark.parametrize(("expected", "history"), BAD, ids=[name for name, _ in BAD])
def test_an_anomaly_is_found_and_no_other(expected: str, history: tuple[LogOperation, ...]) -> None:
    assert kinds(*history) == {expected}
    with pytest.raises(SafetyViolation, match=expected):
        find_anomalies(history).require()
    find_anomalies(history).require(allowed=[Anomaly(expected)])


def test_every_kind_has_a_bad_history() -> None:
    assert {name for name, _ in BAD} == {kind.value for kind in Anomaly}


def test_a_consumer_that_seeks_may_go_back_and_skip() -> None:
    history = [polled("c", (0, "a"), (1, "b"), (2, "c")), Moved("c"), polled("c", (0, "a"))]
    assert kinds(*history) == set()
    assert kinds(*history, Moved("c", "t-0"), polled("c", (2, "c"))) == set()
    assert kinds(*history, Moved("c", "t-1"), polled("c", (2, "c"))) == {"poll-skip"}
    assert kinds(*history, Moved("d"), polled("c", (2, "c"))) == {"poll-skip"}


def test_partitions_are_independent() -> None:
    assert kinds(Polled("c", "t-0", [(5, "a")]), Polled("c", "t-1", [(0, "b")])) == set()


def test_an_acknowledged_record_missing_from_a_full_read_is_lost() -> None:
    history = (sent("p", (0, "a"), (1, "b")), Sent("p", "t-0", ["without an offset"]), polled("c", (0, "a")))
    assert kinds(*history) == {"unseen"}
    assert kinds(*history, read_to_end=True) == {"lost-write"}
    assert find_anomalies(history, read_to_end=True).counts[Anomaly.LOST_WRITE] == 2


def test_only_the_first_anomalies_of_a_kind_are_reported() -> None:
    report = find_anomalies([sent("p", *((offset, offset) for offset in range(100)))], findings_max=3)
    assert (len(report.findings), report.counts) == (3, {Anomaly.UNSEEN: 100})
    assert "unseen in t-0: 0, acknowledged to p at 0, was not read" in str(report)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=30), st.randoms())
def test_no_log_that_keeps_its_invariants_is_accused(
    steps: list[tuple[int, int]], source: random.Random
) -> None:
    """Against an honest log, with gaps, failed and unknown sends, and consumers that come and go."""
    log: list[tuple[int, int]] = []
    end = number = 0
    history: list[LogOperation] = []
    positions = {"c": 0, "d": 0}
    for action, count in steps:
        if action == 0:
            values = list(range(number, number + count))
            number += count
            outcome = source.choice(list(SendOutcome))
            end += source.randint(0, 2)
            placed = list(zip(range(end, end + count), values, strict=True))
            if outcome is not SendOutcome.FAILED:
                log += placed
                end += count
            offsets = [offset for offset, _ in placed] if outcome is SendOutcome.ACKNOWLEDGED else []
            history.append(Sent(source.choice("pq"), 0, values, offsets, outcome))
        elif action == 1:
            client = source.choice("cd")
            positions[client] = source.randint(0, end)
            history.append(Moved(client, source.choice((0, None))))
        else:
            client = source.choice("cd")
            seen = [each for each in log if each[0] >= positions[client]][:count]
            if seen:
                positions[client] = seen[-1][0] + 1
            history.append(Polled(client, 0, seen))
    history.append(Polled("reader of all", 0, log))
    assert find_anomalies(history, read_to_end=True).counts == {}


@pytest.mark.slow
def test_a_million_operations_take_seconds() -> None:
    source = random.Random(1)
    history: list[LogOperation] = []
    ends, positions = [0] * 20, [0] * 20
    for number in range(500_000):
        partition = source.randrange(20)
        history.append(Sent(f"p{number % 9}", partition, [(partition, ends[partition])], [ends[partition]]))
        ends[partition] += 1
        partition = source.randrange(20)
        end = min(ends[partition], positions[partition] + 3)
        seen = [(offset, (partition, offset)) for offset in range(positions[partition], end)]
        positions[partition] = end
        history.append(Polled("c", partition, seen))
    began = time.process_time()
    report = find_anomalies(history)
    assert time.process_time() - began < 30
    assert set(report.counts) <= {Anomaly.UNSEEN}
