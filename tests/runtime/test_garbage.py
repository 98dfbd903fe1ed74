"""Full collections of a server that keeps much: what they look at, and what they still find."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from large_metadata import large_image

from quorate.runtime.real import garbage
from quorate.runtime.real.garbage import short_collections


@pytest.fixture(autouse=True)
def a_collector_that_skips_nothing() -> Iterator[None]:
    """What tests/conftest.py set aside, for the other tests, is looked at in these."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


class Knot:
    """A cycle of one object."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.slow
def test_later_collections_skip_objects_that_a_full_one_found_alive() -> None:
    with short_collections():
        frozen = gc.get_freeze_count()
        kept = [[] for _ in range(10_000)]
        gc.collect()
        # Of those from before some die meanwhile.
        assert gc.get_freeze_count() > frozen + len(kept) * 0.9
        assert len(gc.get_objects()) < 1000


@pytest.mark.slow
def test_objects_from_before_the_start_are_skipped() -> None:
    kept = [[] for _ in range(10_000)]
    with short_collections():
        assert gc.get_freeze_count() >= len(kept)


@pytest.mark.slow
def test_a_full_collection_of_a_growing_heap_looks_at_a_part_of_it() -> None:
    looked_at = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_at.append(len(gc.get_objects()))

    with short_collections():
        gc.callbacks.append(note)
        try:
            kept = [[number] for number in range(300_000)]
        finally:
            gc.callbacks.remove(note)
        assert len(looked_at) >= 3
        # Each is a part of somebody's slice.
        assert max(looked_at) < 20_000
        assert len(kept) == 300_000


@pytest.mark.slow
def test_an_image_of_100_000_partitions_gives_the_collector_next_to_nothing_to_look_at() -> None:
    """Its partitions are columns of numbers and shared parts."""
    with short_collections():
        before = len(gc.get_objects())
        image = large_image()
        assert len(gc.get_objects()) - before < 20_000
        assert len(image.topics) == 1000


@pytest.mark.slow
def test_a_cycle_that_is_made_later_is_collected() -> None:
    with short_collections():
        gc.collect()
        knot = Knot()
        seen = weakref.ref(knot)
        del knot
        gc.collect()
        assert seen() is None


@pytest.mark.slow
def test_a_cycle_that_dies_after_it_was_passed_over_is_collected_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "_UNSEEN_MIN", 1000)
    monkeypatch.setattr(garbage, "_MANY_FOR_S", 0)
    with short_collections():
        knot = Knot()
        seen = weakref.ref(knot)
        gc.collect()
        del knot
        gc.collect()
        assert seen() is not None
        enough = 2 * gc.get_freeze_count() + 10_000
        kept: list[list[object]] = []
        while seen() is not None and len(kept) < 2 * enough:
            kept += [[] for _ in range(enough // 4)]
            gc.collect()
        assert seen() is None


@pytest.mark.slow
def test_objects_that_come_and_go_make_no_collection_look_at_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "_UNSEEN_MIN", 1000)
    with short_collections(), monkeypatch.context() as patch:
        looked_at_all: list[bool] = []
        patch.setattr(gc, "unfreeze", lambda: looked_at_all.append(True))
        frozen = gc.get_freeze_count()
        for _ in range(4):
            # Alive when they are passed over, and gone right afterwards.
            passing = [[] for _ in range(frozen)]
            gc.collect()
            del passing
        assert not looked_at_all


@pytest.mark.slow
def test_no_collection_looks_at_everything_for_what_is_there_for_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the parts of a large request are, while it is decoded, carried out and answered."""
    monkeypatch.setattr(garbage, "_UNSEEN_MIN", 1000)
    now = 0.0
    monkeypatch.setattr(garbage.time, "monotonic", lambda: now)
    with short_collections(), monkeypatch.context() as patch:
        looked_at_all: list[float] = []
        patch.setattr(gc, "unfreeze", lambda: looked_at_all.append(now))
        for _ in range(4):
            passing = [[] for _ in range(3 * gc.get_freeze_count())]
            for _ in range(5):
                gc.collect()
                now += 1.0
            del passing
            gc.collect()
        assert not looked_at_all
        counted: list[float] = []
        count = gc.get_freeze_count
        patch.setattr(gc, "get_freeze_count", lambda: counted.append(now) or count())
        staying = [[] for _ in range(3 * count())]
        for _ in range(25):
            gc.collect()
            now += 1.0
        assert len(looked_at_all) == 1 and staying
        assert len(counted) <= 3


@pytest.mark.slow
def test_the_collector_is_as_it_was_afterwards() -> None:
    before = gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()
    with pytest.raises(KeyError), short_collections():
        assert gc.get_threshold() != before[0]
        raise KeyError
    assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == before


@pytest.mark.slow
def test_a_collector_that_works_in_increments_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_INCREMENTAL_SINCE", (3, 0))
    before = gc.get_threshold(), list(gc.callbacks)
    with short_collections():
        assert (gc.get_threshold(), list(gc.callbacks)) == before
        assert gc.get_freeze_count() == 0
