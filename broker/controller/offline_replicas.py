"""Replicas on a disk that failed, of a broker that runs on with its others (as KIP-858)."""

import uuid
from collections.abc import Iterator, Mapping, Sequence

from quorate.broker.controller.configs import min_insync_replicas, unclean_elections
from quorate.broker.controller.elections import Selector, as_change, elect
from quorate.broker.controller.image import MetadataImage
from quorate.broker.controller.records import NO_LEADER, PartitionChange
from quorate.broker.controller.rpc import OfflineReplica


def leave_partitions(
    image: MetadataImage,
    broker_id: int,
    replicas: Sequence[OfflineReplica],
    *,
    static: Mapping[str, str],
) -> Iterator[tuple[PartitionChange]]:
    """Take the broker out of the ISR and the ELR of partitions whose replica it can't use any more, and
    those that it leads to other leaders.

    Where nobody else could lead without losing records nothing changes, unless the topic allows that: a
    leader that can't serve is no worse than none, and the disk may come back.
    """
    seen: dict[tuple[uuid.UUID, int], None] = {}
    for replica in replicas:
        key = (replica.topic_id, replica.partition_id)
        state = image.partition(*key)
        if state is None or key in seen or broker_id not in (state.leader, *state.isr, *state.elr):
            continue
        seen[key] = None
        topic = image.topics[replica.topic_id].name
        unclean = unclean_elections(image, topic, static=static)
        election = elect(
            state,
            acceptable=image.is_active,
            unclean=unclean,
            min_isr=min_insync_replicas(image, topic, static=static),
            selector=Selector.OFFLINE,
            leaving=broker_id,
            lost=True,
        )
        has_all = election.leader in (*state.isr, *state.elr)
        if not has_all and (election.leader == NO_LEADER or not unclean):
            continue
        change = as_change(replica.topic_id, replica.partition_id, state, election)
        if change is not None:
            yield (change,)
