"""Scenarios of replication, and faults planted in the code, which the scenarios must find."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio

from quorate.broker.replication.following import taking_in
from quorate.broker.replication.producing.producer_state import ProducerState
from quorate.broker.replication.replica.isr_updater import IsrUpdater
from quorate.broker.replication.replica.roles import IsrState, LeaderState
from quorate.broker.replication.serving import partition_reader
from quorate.broker.replication.serving.partition_fetch import Readable, readable
from quorate.error_code import ErrorCode
from quorate.types import Offset


async def a_shrink_binds_only_once_it_is_committed(make_cluster):
    cluster = await make_cluster(min_isr=1, replica_lag_time_max_ms=1000)
    await cluster[1].produced("a")
    await cluster.caught_up()
    cluster.controller.unreachable = True
    cluster.network.partition(["b3"], ["b1", "b2"])
    pending = cluster[1].produce("b", timeout_ms=60_000)
    await trio.sleep(10)
    assert cluster[1].partition().leading.isr.pending.isr == (1, 2)
    # 3 is still in the ISR, and may be elected.
    assert not pending.done
    assert await cluster[1].consumed() == ["a"]
    cluster.controller.elect(3, isr=(3,))
    assert pending.results()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def an_expansion_binds_from_when_it_is_asked_for(make_cluster):
    cluster = await make_cluster(isr=(1, 2), min_isr=1, replica_lag_time_max_ms=1000)
    cluster[1].hold_metadata()
    cluster.controller.lost_answers = 1
    await cluster.in_sync(1, 2, 3)
    # The controller has done it, and 1 doesn't know.
    cluster.controller.unreachable = True
    cluster.network.partition(["b3"], ["b1", "b2"])
    await trio.sleep(10)
    pending = cluster[1].produce("a", timeout_ms=60_000)
    await trio.sleep(10)
    assert not pending.done
    assert await cluster[1].consumed() == []
    cluster[1].release_metadata()
    cluster.controller.elect(3, isr=(3,))
    assert pending.results()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def logs_are_equal_after_a_failover(make_cluster):
    cluster = await make_cluster(min_isr=1)
    await cluster[1].produced("all")
    await cluster.caught_up()
    cluster.cut_off(1)
    for value in ("lost", "lost too"):
        cluster[1].produce(value, acks=1)
    await cluster.lead(2)
    await cluster[2].produced("kept", acks=1)
    cluster.heal()
    await cluster.caught_up(within_s=2)
    assert len({await cluster[each].log_bytes() for each in (1, 2, 3)}) == 1
    assert await cluster[2].consumed() == ["all", "kept"]


async def a_follower_exposes_no_more_than_it_has(make_cluster):
    cluster = await make_cluster(2, isr=(1,), replica_fetch_max_bytes=100)
    cluster.cut_off(2)
    await cluster[1].produce_each(f"{number}" for number in range(10))
    cluster.heal()
    held = cluster[2].partition()
    while held.log.end_offset < 10:
        assert held.high_watermark <= held.log.end_offset
        await trio.sleep(0.0001)


async def a_batch_sent_twice_is_kept_once(make_cluster):
    cluster = await make_cluster()
    first = await cluster[1].produced("a", producer=(7, 0, 0))
    again = await cluster[1].produced("a", producer=(7, 0, 0))
    assert (again.error, again.base_offset) == (ErrorCode.NONE, first.base_offset)
    assert await cluster[1].consumed() == ["a"]


async def consumers_read_what_is_committed(make_cluster):
    cluster = await make_cluster(min_isr=1)
    await cluster[1].produced("a")
    cluster.cut_off(1)
    cluster[1].produce("b", acks=1)
    assert await cluster[1].consumed() == ["a"]
    answer = await cluster[1].fetch(1, max_wait_ms=1000)
    assert (answer.records, answer.high_watermark) == ((), 1)


async def nothing_is_shown_by_too_few(make_cluster):
    cluster = await make_cluster(replicas=(1, 2), isr=(1,))
    cluster.network.block("b2", "b1")
    cluster[1].produce("a", acks=1)
    await trio.sleep(1)
    assert await cluster[1].consumed() == []


async def a_member_that_joins_has_all_that_was_before_the_epoch(make_cluster):
    """KAFKA-7128: 2 leads with a high watermark that is behind; 3 is at that, and below the epoch's start."""
    cluster = await make_cluster(isr=(1, 2), min_isr=1, cut_off=(3,))
    await cluster[1].produce_each(f"{number}" for number in range(5))
    held = cluster[2].partition()
    await cluster.until(lambda: held.log.end_offset == 5)
    held.log.high_watermark = Offset(0)
    cluster.heal()
    cluster.cut_off(1)
    cluster.network.heal("b3", "b2")
    joined = []

    def submit(partition, proposal):
        joined.append(partition.leading.remotes[3].log_end_offset)

    held._context = replace(held._context, proposals=SimpleNamespace(submit=submit))
    cluster.controller.elect(2)
    await cluster.until(lambda: bool(joined))
    assert joined[0] >= 5


async def a_lost_answer_is_asked_for_again(make_cluster):
    cluster = await make_cluster(min_isr=1, replica_lag_time_max_ms=1000)
    cluster[1].hold_metadata()
    cluster.controller.lost_answers = 1
    await cluster[3].crash()
    assert not (await cluster[1].produced("a", timeout_ms=30_000)).error


SCENARIOS = (
    a_shrink_binds_only_once_it_is_committed,
    an_expansion_binds_from_when_it_is_asked_for,
    logs_are_equal_after_a_failover,
    a_follower_exposes_no_more_than_it_has,
    a_batch_sent_twice_is_kept_once,
    consumers_read_what_is_committed,
    nothing_is_shown_by_too_few,
    a_member_that_joins_has_all_that_was_before_the_epoch,
    a_lost_answer_is_asked_for_again,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
async def test_each_scenario_holds_without_a_planted_fault(make_cluster, autojump_clock, scenario):
    await scenario(make_cluster)


# The faults


def a_proposed_shrink_counts(patch):
    def propose(self, proposal):
        self.pending, self.maximal = proposal, frozenset(proposal.isr)

    patch.setattr(IsrState, "propose", propose)


def only_the_committed_isr_counts(patch):
    def propose(self, proposal):
        self.pending, self.maximal = proposal, frozenset(self.committed)

    patch.setattr(IsrState, "propose", propose)


def nothing_is_truncated(patch):
    async def truncate(partition, role, cut, cutting):
        await trio.lowlevel.checkpoint()

    patch.setattr(taking_in, "truncate", truncate)


def a_cut_goes_to_the_high_watermark(patch):
    """KIP-101: where logs were cut before leader epochs told where they part."""
    truncate = taking_in.truncate

    async def wrong(partition, role, cut, cutting):
        await truncate(partition, role, int(partition.log.end_offset), cutting)

    patch.setattr(taking_in, "truncate", wrong)


def a_followers_high_watermark_is_the_leaders(patch):
    append = taking_in.append_replicated

    async def wrong(partition, role, records, *, high_watermark):
        size = await append(partition, role, records, high_watermark=high_watermark)
        partition.log.high_watermark = Offset(max(high_watermark, partition.log.high_watermark))
        return size

    patch.setattr(taking_in, "append_replicated", wrong)


def duplicates_are_appended(patch):
    patch.setattr(ProducerState, "check", lambda self, header: None)


def consumers_read_to_the_end(patch):
    def wrong(partition, item, **options):
        found = readable(partition, item, **options)
        return Readable(int(partition.log.end_offset), found.diverging)

    patch.setattr(partition_reader, "readable", wrong)


def too_few_are_enough(patch):
    patch.setattr(LeaderState, "under_min_isr", lambda self, min_isr: False)


def the_start_of_the_epoch_is_not_looked_at(patch):
    init = LeaderState.__init__

    def wrong(self, broker_id, state, **values):
        init(self, broker_id, state, **(values | {"epoch_start_offset": 0}))

    patch.setattr(LeaderState, "__init__", wrong)


def an_unknown_outcome_is_taken_for_a_no(patch):
    ask = IsrUpdater._ask

    async def wrong(self, batch):
        if not await ask(self, batch):
            for partition in batch:
                isr = partition.leading.isr
                isr.pending, isr.maximal = None, frozenset(isr.committed)
        return True

    patch.setattr(IsrUpdater, "_ask", wrong)


FAULTS = (
    (a_proposed_shrink_counts, a_shrink_binds_only_once_it_is_committed),
    (only_the_committed_isr_counts, an_expansion_binds_from_when_it_is_asked_for),
    (nothing_is_truncated, logs_are_equal_after_a_failover),
    (a_cut_goes_to_the_high_watermark, logs_are_equal_after_a_failover),
    (a_followers_high_watermark_is_the_leaders, a_follower_exposes_no_more_than_it_has),
    (duplicates_are_appended, a_batch_sent_twice_is_kept_once),
    (consumers_read_to_the_end, consumers_read_what_is_committed),
    (too_few_are_enough, nothing_is_shown_by_too_few),
    (the_start_of_the_epoch_is_not_looked_at, a_member_that_joins_has_all_that_was_before_the_epoch),
    (an_unknown_outcome_is_taken_for_a_no, an_expansion_binds_from_when_it_is_asked_for),
)


@pytest.mark.parametrize(("fault", "scenario"), FAULTS, ids=lambda each: each.__name__)
async def test_a_planted_fault_is_found(make_cluster, autojump_clock, monkeypatch, fault, scenario):
    fault(monkeypatch)
    with pytest.raises((AssertionError, trio.TooSlowError)):
        await scenario(make_cluster)
