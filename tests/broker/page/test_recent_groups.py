"""The lag of groups is remembered for an hour, for a bounded number of them."""

from collections.abc import Mapping

import pytest

from quorate.broker.groups.group_lags import GroupLag, GroupLags
from quorate.broker.groups.group_state import GroupState
from quorate.broker.groups.offsets_topic import OFFSETS_TOPIC, partition_of
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER, Partition, Topic
from quorate.broker.page import recent_groups
from quorate.broker.page.recent_groups import KEPT, SAMPLES, RecentGroups, coordinator_of, coordinators
from tests.kit.metadata_folder import ORDERS

EMPTY = MetadataImage()


class Looked:
    """What each look finds: a lag by group; None: no end is known."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.found: Mapping[str, int | None] = {}
        self.state = GroupState.STABLE
        self.recent = RecentGroups(self.look, now_ms=lambda: self.now_ms)

    async def look(self) -> GroupLags:
        return GroupLags(
            tuple(
                GroupLag(
                    group_id=group,
                    state=self.state,
                    members=1,
                    lag=lag or 0,
                    known=0 if lag is None else 2,
                    unknown=1 if lag is None else 0,
                )
                for group, lag in self.found.items()
            ),
            0,
        )

    async def sample(self, **lags: int | None) -> None:
        self.now_ms += 10
        self.found = lags
        await self.recent.sample()

    def series(self, group: str) -> object:
        return self.recent.of_group(group, EMPTY)["series"]


@pytest.fixture
def looked() -> Looked:
    return Looked()


async def test_where_nothing_is_known_the_plot_has_a_gap(looked: Looked) -> None:
    await looked.sample(a=5, b=None)
    await looked.sample(a=None)
    await looked.sample(b=1)
    await looked.sample(a=7, b=2)
    assert looked.series("a") == [5, None, None, 7]
    # From the first look that knew it.
    assert looked.series("b") == [1, 2]
    told = looked.recent.as_dict(EMPTY)
    assert told["times"] == [10, 20, 30, 40]
    assert told["series"] == {"a": [5, None, None, 7], "b": [1, 2]}


async def test_an_hour_of_the_groups_with_the_highest_lag_is_kept(looked: Looked) -> None:
    await looked.sample(**{f"g{number}": 1000 + number for number in range(KEPT + 50)})
    kept = [number for number in range(KEPT + 50) if looked.series(f"g{number}") is not None]
    assert kept == list(range(50, KEPT + 50))
    # One that has less than all of these had within the hour has no plot; with more it takes the least one's.
    many = {f"g{number}": 1000 + number for number in range(50, KEPT + 50)}
    await looked.sample(**many, late=1050)
    assert looked.series("late") is None
    await looked.sample(**many, late=1051)
    assert looked.series("late") == [1051] and looked.series("g50") is None
    assert looked.series("g51") == [1051] * 3
    for _ in range(SAMPLES):
        await looked.sample(g51=3)
    assert looked.series("g51") == [3] * SAMPLES
    assert (
        looked.recent.of_group("g51", EMPTY)["times"]
        == [looked.now_ms - 10 * each for each in range(SAMPLES)][::-1]
    )
    # Whoever was gone for the whole hour is forgotten.
    assert looked.series("late") is None


async def test_many_groups_are_counted_and_the_first_are_told(looked: Looked) -> None:
    await looked.sample(**{f"g{number:04}": number // 2 for number in range(1000)})
    told = looked.recent.as_dict(EMPTY)
    assert told["total"] == 1000
    groups = told["groups"]
    assert isinstance(groups, list) and len(groups) == recent_groups.LISTED_MAX
    assert [each["group"] for each in groups[:3]] == ["g0998", "g0999", "g0996"]
    assert list(told["series"]) == [each["group"] for each in groups[: recent_groups.PLOTTED]]  # type: ignore[arg-type]


async def test_a_rebalance_lasts_since_the_first_look_that_saw_nothing_else(looked: Looked) -> None:
    await looked.sample(g=1)
    assert looked.recent.rebalancing_since_ms == {}
    for looked.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        await looked.sample(g=1)
        assert looked.recent.rebalancing_since_ms == {"g": 20}
    looked.state = GroupState.STABLE
    await looked.sample(g=1)
    looked.state = GroupState.PREPARING_REBALANCE
    await looked.sample(g=1)
    assert looked.recent.rebalancing_since_ms == {"g": 50}


def test_the_coordinator_of_any_name_is_known() -> None:
    image = MetadataImage()
    records = [
        Topic(name=OFFSETS_TOPIC, topic_id=ORDERS),
        *(
            Partition(topic_id=ORDERS, partition_id=index, replicas=(1, 2), isr=(1, 2), leader=leader)
            for index, leader in enumerate((1, 2, 2, NO_LEADER))
        ),
    ]
    for offset, record in enumerate(records):
        image.apply(record, offset=offset, epoch=1)
    assert coordinators(image) == {"1": 1, "2": 2, "-1": 1}
    found = {partition_of(name, 4): coordinator_of(image, name) for name in map(str, range(50))}
    assert found == {0: 1, 1: 2, 2: 2, 3: None}
    assert coordinator_of(EMPTY, "g") is None
