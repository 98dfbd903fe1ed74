"""The groups that a broker coordinates: as they are, and their lag of the last hour, in memory."""

import math
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from heapq import nsmallest
from typing import Final

import trio

from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.group_lags import GroupLag, GroupLags
from quorate.broker.groups.group_state import REBALANCING
from quorate.broker.groups.offsets_topic import OFFSETS_TOPIC, partition_of
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.page.page_state import Json
from quorate.broker.replication.wiring import ReplicaServices
from quorate.runtime import get_logger
from quorate.types import Offset

log = get_logger(__name__)

SAMPLE_SECONDS: Final = 10
SAMPLES: Final = 360
"""An hour."""
KEPT: Final = 100
"""The lag of so many groups is kept: 4 bytes a sample."""
LISTED_MAX: Final = 200
"""Groups that are told; more are counted."""
PLOTTED: Final = 8
"""Groups whose lag of the last hour is told with the list. Others are asked for by name."""
_PAUSE_FACTOR: Final = 20
"""The next look is so many times later than one takes: any number of groups takes a twentieth of a
processor at most."""


class RecentGroups:
    """Looks at the groups of a broker again and again, and remembers."""

    def __init__(self, look: Callable[[], Awaitable[GroupLags]], *, now_ms: Callable[[], int]) -> None:
        self._look = look
        self._now_ms = now_ms
        self._seen = GroupLags((), 0)
        self._first: tuple[GroupLag, ...] = ()
        """Those with the most lag."""
        self._times: deque[int] = deque(maxlen=SAMPLES)
        self._series: dict[str, array[float]] = {}
        """Each ends at the last of the times; NaN: unknown then."""
        self.rebalancing_since_ms: Mapping[str, int] = {}
        """Since when each group was rebalancing each time that it was looked at."""

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            began = trio.current_time()
            try:
                await self.sample()
            except Exception as error:
                # As for the page: what can't be shown is no reason to end the node.
                log.error("the page has no groups", reason=repr(error))
            took = trio.current_time() - began
            await trio.sleep(max(SAMPLE_SECONDS, _PAUSE_FACTOR * took))

    async def sample(self) -> None:
        """Look once."""
        seen = await self._look()
        now_ms = self._now_ms()
        # Each of these pieces takes some ms for 10,000 groups.
        await trio.lowlevel.checkpoint()
        first = tuple(nsmallest(LISTED_MAX, seen.groups, key=_by_lag))
        await trio.lowlevel.checkpoint()
        lags = {each.group_id: _value(each) for each in seen.groups}
        await trio.lowlevel.checkpoint()
        self._seen, self._first = seen, first
        self._times.append(now_ms)
        before = self.rebalancing_since_ms
        self.rebalancing_since_ms = {
            each.group_id: before.get(each.group_id, now_ms)
            for each in seen.groups
            if each.state in REBALANCING
        }
        self._extend(lags)

    def _extend(self, lags: Mapping[str, float]) -> None:
        for group, series in tuple(self._series.items()):
            series.append(lags.get(group, math.nan))
            if len(series) > SAMPLES:
                del series[0]
            if all(map(math.isnan, series)):
                del self._series[group]
        for each in self._first:
            value = lags[each.group_id]
            if each.group_id in self._series or math.isnan(value):
                continue
            if len(self._series) >= KEPT:
                least = min(self._series, key=lambda group: _highest(self._series[group]))
                # The others have no more lag.
                if _highest(self._series[least]) >= value:
                    break
                del self._series[least]
            self._series[each.group_id] = array("f", (value,))

    def as_dict(self, image: MetadataImage) -> dict[str, Json]:
        """Return the groups with the most lag, and who coordinates the others."""
        plotted = [each.group_id for each in self._first if each.group_id in self._series][:PLOTTED]
        return {
            "at_ms": self._times[-1] if self._times else None,
            "total": len(self._seen.groups),
            "loading": self._seen.loading,
            "groups": [self._told(each) for each in self._first],
            "coordinators": coordinators(image),
            "times": list(self._times),
            "series": {group: self._plot(group) for group in plotted},
        }

    def of_group(self, name: str, image: MetadataImage) -> dict[str, Json]:
        """Return who coordinates a group, and what is known of it here."""
        found = next((each for each in self._seen.groups if each.group_id == name), None)
        return {
            "group": name,
            "coordinator": coordinator_of(image, name),
            "found": None if found is None else self._told(found),
            "times": list(self._times),
            "series": self._plot(name) if name in self._series else None,
        }

    def _told(self, each: GroupLag) -> Json:
        return {
            "group": each.group_id,
            "state": each.state.value,
            "members": each.members,
            "lag": None if each.unknown and not each.known else each.lag,
            "known": each.known,
            "unknown": each.unknown,
            "rebalancing_since_ms": self.rebalancing_since_ms.get(each.group_id),
        }

    def _plot(self, group: str) -> list[Json]:
        return [None if math.isnan(each) else int(each) for each in self._series[group]]


def coordinators(image: MetadataImage) -> dict[str, int]:
    """Return the brokers that lead partitions of `__consumer_offsets`, and how many: the groups of these are
    theirs. -1: nobody."""
    found: dict[str, int] = {}
    for state in image.named_partitions(OFFSETS_TOPIC):
        found[str(state.leader)] = found.get(str(state.leader), 0) + 1
    return found


def coordinator_of(image: MetadataImage, group: str) -> int | None:
    """Return the broker that coordinates a group, whether there is such a group or not. None: nobody."""
    partitions = image.named_partitions(OFFSETS_TOPIC)
    if not partitions:
        return None
    leader = partitions[partition_of(group, len(partitions))].leader
    return leader if leader >= 0 else None


def recent_groups(
    groups: GroupCoordinator, replicas: ReplicaServices, now_ms: Callable[[], int]
) -> RecentGroups:
    """Return the groups of a broker, with the ends of the partitions of which it has a replica."""

    def end_of(topic: str, partition: int) -> Offset | None:
        found = replicas.hosted.find(topic, partition)
        return None if found is None or found.role is None else found.high_watermark

    return RecentGroups(lambda: groups.administration.lags(end_of), now_ms=now_ms)


def _by_lag(each: GroupLag) -> tuple[int, str]:
    return -each.lag, each.group_id


def _value(each: GroupLag) -> float:
    return math.nan if each.unknown and not each.known else float(each.lag)


def _highest(series: "array[float]") -> float:
    return max((each for each in series if not math.isnan(each)), default=-1.0)
