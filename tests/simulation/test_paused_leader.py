"""The SIGSTOP scenario: a leader sleeps longer than anybody waits, and wakes up believing it still leads."""

import random

import pytest
import trio
from quorum_story import in_quorum

from quorate.raft.core.effects import Role
from quorate.simulation.histories.history import AppendOutcome, History
from quorate.simulation.quorum.quorum_clients import AppendingClients, ClientSettings
from quorate.simulation.quorum.quorum_cluster import QuorumCluster

SECONDS = 30.0
"""Of sleep: ten times what the others need to elect somebody else."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_leader_that_was_stopped_acknowledges_nothing_that_was_sent_while_it_slept(seed: int) -> None:
    source = random.Random(f"paused leader {seed}")

    async def story(cluster: QuorumCluster) -> None:
        history = History()
        old = await cluster.converge(within_s=20)
        acknowledged_by_old: list[int] = []
        # Clients keep sending to whoever they take for the leader, the sleeping one included.
        settings = ClientSettings(in_process=3, remote=4, think_max_s=0.6, timeout_s=60)
        clients = AppendingClients(cluster, history, settings, source)
        cluster.spawn(clients.run)
        await trio.sleep(2)
        old_epoch = old.serving.epoch
        asleep_at = trio.current_time()
        cluster.scheduler.pause(old.name)
        await trio.sleep(SECONDS)

        new = cluster.leader()
        assert new is not None
        assert new is not old
        assert new.serving.epoch > old_epoch
        assert old.serving.role is Role.LEADER, "asleep, it has not heard of anybody else"
        assert not old.serving.is_leader, "but it knows how long it has heard nobody"
        sent_to_sleeper = [append for append in history.appends if append.outcome is AppendOutcome.UNKNOWN]
        assert sent_to_sleeper, "somebody waits for the sleeper"
        cluster.scheduler.resume(old.name)
        clients.finish()
        leader = await cluster.converge(within_s=20)
        assert leader is not old
        for append in history.appends:
            if append.invoked_at > asleep_at and append.outcome is AppendOutcome.ACKNOWLEDGED:
                assert append.epoch > old_epoch, f"the sleeper answered: {append}"
                acknowledged_by_old.append(append.base_offset)
        assert acknowledged_by_old, "the others went on meanwhile"
        assert leader.journal is not None
        history.check(leader.journal.entries)

    in_quorum(story, seed=seed, source=source)
