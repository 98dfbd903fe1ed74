"""The checker of append histories accepts what one log explains, and nothing else."""

import pytest

from quorate.simulation.histories.history import AppendCall, BoundedRead, History
from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch, Offset


def acknowledged(history: History, record: bytes, offset: int, start: float, end: float) -> AppendCall:
    append = history.invoke("client", [record], start)
    history.acknowledge(append, Offset(offset), Epoch(1), end)
    return append


def test_an_empty_history_fits_an_empty_log() -> None:
    History().check([])


def test_acknowledged_unknown_and_refused_appends_that_fit() -> None:
    history = History()
    acknowledged(history, b"a", 1, 0.0, 1.0)
    history.invoke("client", [b"may be there"], 1.5)
    history.invoke("client", [b"may be missing"], 1.5)
    history.fail(history.invoke("client", [b"refused"], 2.0), 2.5)
    acknowledged(history, b"b", 5, 3.0, 4.0)
    history.check([(1, b"a"), (3, b"may be there"), (5, b"b")])


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ([], "acknowledged but lost"),
        ([(2, b"a")], "acknowledged elsewhere"),
        ([(1, b"a"), (2, b"a")], "appended twice"),
        ([(1, b"a"), (2, b"nobody's")], "nobody appended"),
        ([(1, b"a"), (2, b"refused")], "refused but appended"),
    ],
)
def test_a_log_that_contradicts_the_history_is_named(log: list[tuple[int, bytes]], problem: str) -> None:
    history = History()
    acknowledged(history, b"a", 1, 0.0, 1.0)
    history.fail(history.invoke("client", [b"refused"], 2.0), 2.5)
    with pytest.raises(SafetyViolation, match=problem):
        history.check(log)


def test_an_append_is_whole_or_missing() -> None:
    history = History()
    history.invoke("client", [b"a", b"b"], 0.0)
    history.check([(4, b"a"), (5, b"b")])
    for torn in ([(4, b"a")], [(4, b"a"), (6, b"b")], [(4, b"b"), (5, b"a")]):
        with pytest.raises(SafetyViolation, match="torn apart"):
            history.check(torn)


def test_the_end_of_an_append_of_unknown_outcome_may_be_missing_where_there_are_no_batches() -> None:
    history = History(whole=False)
    history.invoke("client", [b"a", b"b"], 0.0)
    history.check([(4, b"a")])
    with pytest.raises(SafetyViolation, match="torn apart"):
        history.check([(4, b"a"), (6, b"b")])
    acknowledged(history, b"c", 5, 1.0, 2.0)
    history.appends[-1].records = [b"c", b"d"]
    with pytest.raises(SafetyViolation, match="torn apart"):
        history.check([(4, b"a"), (5, b"c")])


def test_an_append_acknowledged_before_another_began_precedes_it() -> None:
    history = History()
    acknowledged(history, b"a", 2, 0.0, 1.0)
    acknowledged(history, b"b", 1, 0.5, 3.0)  # overlaps the first: any order
    history.check([(1, b"b"), (2, b"a")])
    history.invoke("client", [b"c"], 2.0)  # unknown, but begun after the first had ended
    with pytest.raises(SafetyViolation, match="out of order"):
        history.check([(0, b"c"), (1, b"b"), (2, b"a")])


@pytest.mark.parametrize(
    ("end_offset", "staleness_s", "fits"),
    [(2, 0.5, True), (1, 0.5, False), (1, 1.0, True), (0, 1.0, True), (0, 0.99, False)],
)
def test_a_bounded_read_sees_what_was_acknowledged_longer_ago(
    end_offset: int, staleness_s: float, fits: bool
) -> None:
    history = History()
    acknowledged(history, b"a", 0, 0.0, 1.0)
    acknowledged(history, b"b", 1, 1.0, 1.25)
    history.bounded_reads.append(BoundedRead("reader", 2.0, Offset(end_offset), staleness_s))
    log = [(0, b"a"), (1, b"b")]
    if fits:
        history.check(log)
    else:
        with pytest.raises(SafetyViolation, match="too stale"):
            history.check(log)
