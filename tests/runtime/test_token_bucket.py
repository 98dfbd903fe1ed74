import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.runtime.token_bucket import QuotaWindows, TokenBucket

BURST_S = QuotaWindows(count=11, size_s=1.0).burst_s


def test_all_windows_but_one_may_be_used_up_at_once() -> None:
    bucket = TokenBucket(burst_s=BURST_S)
    bucket.use(1000, 100, now=50.0)
    assert bucket.wait_s(100, now=50.0) == 0
    bucket.use(500, 100, now=50.0)
    assert bucket.wait_s(100, now=50.0) == 5
    assert bucket.wait_s(100, now=54.9) == pytest.approx(0.1)
    assert bucket.wait_s(100, now=55.0) == 0


def test_a_quota_that_is_raised_shortens_the_wait() -> None:
    bucket = TokenBucket(burst_s=BURST_S)
    bucket.use(2000, 100, now=0.0)
    assert bucket.wait_s(100, now=0.0) == 10
    assert bucket.wait_s(200, now=0.0) == 0


def test_a_long_pause_allows_one_burst_and_no_more() -> None:
    bucket = TokenBucket(burst_s=BURST_S)
    bucket.use(1000, 100, now=0.0)
    bucket.use(1100, 100, now=10_000.0)
    assert bucket.wait_s(100, now=10_000.0) == 1


@given(
    st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 3000)), min_size=1, max_size=200),
    st.sampled_from([10, 100, 1000]),
)
def test_an_obedient_user_never_gets_more_than_its_quota_one_burst_and_its_last_use(
    uses: list[tuple[float, int]], quota: int
) -> None:
    bucket, now, used = TokenBucket(burst_s=BURST_S), 0.0, 0
    for pause, amount in uses:
        now += pause
        bucket.use(amount, quota, now=now)
        used += amount
        allowed = quota * (now + BURST_S) + amount
        assert used <= allowed + 1e-6 * used, f"{used} in {now:.1f} s at {quota}/s"
        now += bucket.wait_s(quota, now=now)
