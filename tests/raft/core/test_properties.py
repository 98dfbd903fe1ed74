"""Clever functions against naive twins."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.raft.core.epochs import EpochCache
from quorate.raft.core.log_state import LogState
from quorate.raft.core.types import Epoch, EpochEnd, Offset, RecoveredLog
from quorate.raft.core.voters import majority_end

offsets = st.integers(0, 20).map(Offset)
epochs_of_records = st.lists(st.integers(1, 6).map(Epoch), max_size=12).map(sorted)


@given(ends=st.lists(offsets, min_size=1, max_size=7), epoch_start=st.integers(-1, 20).map(Offset))
def test_the_majority_end_is_the_highest_offset_that_a_majority_has(
    ends: list[Offset], epoch_start: Offset
) -> None:
    majority = len(ends) // 2 + 1
    naive = max(offset for offset in range(21) if sum(end >= offset for end in ends) >= majority)
    assert majority_end(ends, epoch_start=epoch_start) == (naive if naive > epoch_start else None)


def test_nothing_is_committed_without_voters() -> None:
    assert majority_end([], epoch_start=Offset(-1)) is None


def cache_of(records: list[Epoch]) -> EpochCache:
    cache = EpochCache()
    for offset, epoch in enumerate(records):
        cache.assign(epoch=epoch, start_offset=Offset(offset))
    return cache


@given(records=epochs_of_records, asked=st.integers(0, 7).map(Epoch))
def test_an_epoch_ends_where_the_naive_list_of_records_says(records: list[Epoch], asked: Epoch) -> None:
    end = len([epoch for epoch in records if epoch <= asked])
    naive = EpochEnd(records[end - 1] if end else Epoch(0), Offset(end))
    cache = cache_of(records)
    told = cache.end_offset_for(asked, log_start_offset=Offset(0), log_end_offset=Offset(len(records)))
    assert told == naive
    assert cache.last_epoch == (records[-1] if records else 0)


@given(records=epochs_of_records, cut=st.integers(0, 12).map(Offset))
def test_a_truncated_cache_is_the_cache_of_the_truncated_log(records: list[Epoch], cut: Offset) -> None:
    cache = cache_of(records)
    copy = cache.clone()
    cache.truncate(cut)
    assert cache.key() == cache_of(records[:cut]).key()
    assert EpochCache(cache.entries).key() == cache.key()
    assert copy.key() == cache_of(records).key()


@given(records=epochs_of_records, end=st.integers(0, 12))
def test_the_epoch_below_an_offset_is_that_of_the_record_there(records: list[Epoch], end: int) -> None:
    end = min(end, len(records))
    assert cache_of(records).epoch_before(Offset(end)) == (records[end - 1] if end else 0)


@given(mine=epochs_of_records, theirs=epochs_of_records)
def test_logs_that_diverge_agree_after_one_cut_per_epoch_at_most(
    mine: list[Epoch], theirs: list[Epoch]
) -> None:
    """Each answer cuts something, so that the search ends."""
    leader = LogState(RecoveredLog(epochs=cache_of(mine).entries, end_offset=Offset(len(mine))))
    follower = theirs
    for _ in range(7):
        last = follower[-1] if follower else Epoch(0)
        diverging = leader.divergence(offset=Offset(len(follower)), epoch=last)
        if diverging is None:
            break
        own = cache_of(follower).end_offset_for(
            diverging.epoch, log_start_offset=Offset(0), log_end_offset=Offset(len(follower))
        )
        cut = min(diverging.end_offset, own.end_offset)
        assert cut < len(follower)
        follower = follower[:cut]
    else:
        raise AssertionError("never agrees")
