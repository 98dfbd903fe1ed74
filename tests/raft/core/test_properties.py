"""Clever functions against naive twins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.raft.core.majority import majority_end_offset
from quorate.raft.core.replica_log.epoch_history import EpochHistory
from quorate.raft.core.replica_log.replica_log import ReplicaLog
from quorate.raft.core.replica_log.voter_history import VoterHistory
from quorate.types import (
    Endpoint,
    Epoch,
    EpochEnd,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    SnapshotId,
    Voter,
    VotersAt,
    VoterSet,
)

offsets = st.integers(0, 20).map(Offset)
epochs_of_records = st.lists(st.integers(1, 6).map(Epoch), max_size=12).map(sorted)


@given(ends=st.lists(offsets, min_size=1, max_size=7), epoch_start=st.integers(-1, 20).map(Offset))
def test_the_majority_end_is_the_highest_offset_that_a_majority_has(
    ends: list[Offset], epoch_start: Offset
) -> None:
    majority = len(ends) // 2 + 1
    naive = max(offset for offset in range(21) if sum(end >= offset for end in ends) >= majority)
    assert majority_end_offset(ends, epoch_start=epoch_start) == (naive if naive > epoch_start else None)


def test_nothing_is_committed_without_voters() -> None:
    assert majority_end_offset([], epoch_start=Offset(-1)) is None


def history_of(records: list[Epoch]) -> EpochHistory:
    history = EpochHistory()
    for offset, epoch in enumerate(records):
        history.assign(epoch=epoch, start_offset=Offset(offset))
    return history


def log_of(records: list[Epoch], *, start: int = 0, snapshot: int | None = None) -> ReplicaLog:
    """The log of these records, of which those below `start` are only in a snapshot that ends at
    `snapshot`."""
    end = start if snapshot is None else snapshot
    return ReplicaLog(
        RecoveredLog(
            epochs=history_of(records).entries,
            log_start_offset=Offset(start),
            start_epoch=records[start - 1] if start else Epoch(0),
            end_offset=Offset(len(records)),
            snapshot=SnapshotId(Offset(end), records[end - 1]) if end else None,
        ),
        static_voters=VoterSet(()),
    )


@given(records=epochs_of_records, asked=st.integers(0, 7).map(Epoch), start=st.integers(0, 12))
def test_an_epoch_ends_where_the_naive_list_of_records_says(
    records: list[Epoch], asked: Epoch, start: int
) -> None:
    start = min(start, len(records))
    end = max(start, len([epoch for epoch in records if epoch <= asked]))
    last = records[end - 1] if end else Epoch(0)
    naive = EpochEnd(last if last <= asked else Epoch(0), Offset(end))
    log = log_of(records, start=start)
    assert log.end_of(asked) == naive
    assert log.last_epoch == (records[-1] if records else 0)
    for offset in range(start, len(records) + 1):
        assert log.epoch_before(Offset(offset)) == (records[offset - 1] if offset else 0)


@given(records=epochs_of_records, start=st.integers(0, 12), later=st.integers(0, 12))
def test_a_log_whose_start_moved_is_the_log_that_starts_there(
    records: list[Epoch], start: int, later: int
) -> None:
    start, later = sorted((min(start, len(records)), min(later, len(records))))
    log = log_of(records, start=start, snapshot=later)
    if later > start:
        log.move_start(EpochEnd(records[later - 1], Offset(later)))
    assert log.state_key() == log_of(records, start=later).state_key()


@given(records=epochs_of_records, cut=st.integers(0, 12).map(Offset))
def test_a_truncated_cache_is_the_cache_of_the_truncated_log(records: list[Epoch], cut: Offset) -> None:
    history = history_of(records)
    copy = history.clone()
    history.truncate(cut)
    assert history.state_key() == history_of(records[:cut]).state_key()
    assert EpochHistory(history.entries).state_key() == history.state_key()
    assert copy.state_key() == history_of(records).state_key()


@given(mine=epochs_of_records, theirs=epochs_of_records, start=st.integers(0, 12))
def test_logs_that_diverge_agree_after_one_cut_per_epoch_at_most(
    mine: list[Epoch], theirs: list[Epoch], start: int
) -> None:
    """Each answer cuts something, so that the search ends; with a snapshot, if they part below the leader's
    log start."""
    start = min(start, len(mine))
    leader = log_of(mine, start=start)
    follower = theirs
    for _ in range(7):
        offset, last = Offset(len(follower)), follower[-1] if follower else Epoch(0)
        if leader.snapshot_for(offset=offset, epoch=last) is not None:
            return
        diverging = leader.divergence(offset=offset, epoch=last)
        if diverging is None:
            break
        cut = min(diverging.end_offset, log_of(follower).end_of(diverging.epoch).end_offset)
        assert cut < len(follower)
        follower = follower[:cut]
    else:
        raise AssertionError("never agrees")


@pytest.mark.bug("etcd-io/raft 76f1249")
@given(mine=epochs_of_records, theirs=epochs_of_records, start=st.integers(1, 12))
def test_no_log_that_misses_something_below_the_start_is_taken_for_a_prefix(
    mine: list[Epoch], theirs: list[Epoch], start: int
) -> None:
    """A missing epoch is never a match."""
    start = min(start, len(mine))
    if start == 0:
        return
    leader = log_of(mine, start=start)
    offset, last = Offset(len(theirs)), theirs[-1] if theirs else Epoch(0)
    is_prefix = (
        leader.snapshot_for(offset=offset, epoch=last) is None
        and leader.divergence(offset=offset, epoch=last) is None
    )
    if len(theirs) < start or last < mine[start - 1] or (len(theirs) == start and last != mine[start - 1]):
        assert not is_prefix
    elif len(theirs) <= len(mine) and last == mine[len(theirs) - 1]:
        assert is_prefix


voter_sets = st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True).map(
    lambda ids: VoterSet(
        tuple(
            Voter(ReplicaKey(NodeId(node), f"d{node}"), Endpoint(f"node-{node}", 9093))
            for node in sorted(ids)
        )
    )
)


@given(
    sets=st.dictionaries(st.integers(-1, 12), voter_sets, max_size=6),
    cut=st.integers(0, 13),
    trim=st.integers(0, 13),
)
def test_the_voters_are_the_last_set_in_what_is_left_of_the_log(
    sets: dict[int, VoterSet], cut: int, trim: int
) -> None:
    static = VoterSet(())
    history = VoterHistory(static, [VotersAt(Offset(offset), sets[offset]) for offset in sorted(sets)])
    history.truncate(Offset(cut))
    left = {offset: voters for offset, voters in sets.items() if offset < cut}
    trim = min(trim, cut)
    history.trim(Offset(trim))
    assert history.latest == (left[max(left)] if left else static)
    assert history.latest_offset == (max(left) if left else None)
    for end in range(trim, cut + 1):
        below = [offset for offset in left if offset < end]
        assert history.at(Offset(end)) == (left[max(below)] if below else None)
