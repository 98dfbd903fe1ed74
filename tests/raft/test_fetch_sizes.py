"""The bytes that a follower asks for: fewer after each fetch without an answer."""

from quorate.raft.core import FetchRequest
from quorate.raft.transport.fetch_sizes import FetchSizes
from quorate.types import Epoch, NodeId, Offset, ReplicaKey

MAX_BYTES = 8192


def fetch(correlation: int, max_bytes: int = MAX_BYTES) -> FetchRequest:
    return FetchRequest(
        cluster_id="cluster",
        source=NodeId(1),
        destination=NodeId(2),
        correlation=correlation,
        replica=ReplicaKey(NodeId(1), "directory"),
        epoch=Epoch(1),
        offset=Offset(0),
        last_fetched_epoch=Epoch(0),
        max_wait_ms=500,
        max_bytes=max_bytes,
        high_watermark=None,
    )


def asked(sizes: FetchSizes, correlation: int) -> int:
    return sizes.limited(fetch(correlation)).max_bytes


def test_each_fetch_without_an_answer_halves_what_the_next_asks_for() -> None:
    sizes = FetchSizes(MAX_BYTES)
    assert [asked(sizes, number) for number in range(1, 7)] == [8192, 4096, 2048, 1024, 1024, 1024]


def test_each_answer_raises_the_limit_by_an_eighth_up_to_what_is_configured() -> None:
    sizes = FetchSizes(MAX_BYTES)
    asked(sizes, 1)
    seen = []
    for number in range(2, 10):
        seen.append(asked(sizes, number))
        sizes.note_answer(number)
    assert seen == [4096, 4608, 5184, 5832, 6561, 7381, 8192, 8192]


def test_the_late_answer_to_an_earlier_fetch_does_not_count() -> None:
    sizes = FetchSizes(MAX_BYTES)
    asked(sizes, 1)
    assert asked(sizes, 2) == 4096
    sizes.note_answer(1)
    assert asked(sizes, 3) == 2048


def test_a_fetch_that_asks_for_no_bytes_is_sent_as_it_is_and_not_waited_for() -> None:
    sizes = FetchSizes(MAX_BYTES)
    empty = fetch(1, max_bytes=0)
    assert sizes.limited(empty) is empty
    assert asked(sizes, 2) == MAX_BYTES


def test_a_request_below_the_limit_is_sent_as_it_is() -> None:
    sizes = FetchSizes(MAX_BYTES)
    small = fetch(1, max_bytes=10)
    assert sizes.limited(small) is small
