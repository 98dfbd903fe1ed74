"""Operators of a simulated broker cluster: they administer topics of their own, and settings, while things go
wrong, and check at the end that the cluster is as they were answered."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import trio

from quorate.simulation.cluster_run import Clients
from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.admin_history import AdminHistory
from tests.simulator.administration.answered_state import Held
from tests.simulator.administration.committed_rules import (
    RemovedTopicsStayRemoved,
    UnregisteredBrokersStayOut,
)
from tests.simulator.administration.replica_folders import still_there
from tests.simulator.brokers.broker_clients import everything_of
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost
from tests.simulator.brokers.loss_budget import LossBudget
from tests.simulator.brokers.metadata_invariants import CommittedMetadata
from tests.simulator.brokers.operating.broker_actions import drain, unregister
from tests.simulator.brokers.operating.group_actions import check_groups, offsets_topic, use_group
from tests.simulator.brokers.operating.operator_client import PREFIX, Counted, OperatorClient, OwnTopic
from tests.simulator.brokers.operating.setting_actions import (
    alter_broker_config,
    alter_group_config,
    alter_topic_config,
    set_quotas,
    upgrade,
)
from tests.simulator.brokers.operating.topic_actions import (
    create,
    delete,
    delete_records,
    elect,
    grow,
    produce,
    reassign_replicas,
    shrink,
)
from tests.simulator.brokers.operating.wrong_requests import ask_wrongly

Action = Callable[[OperatorClient], Awaitable[None]]

ACTIONS: Final[tuple[tuple[int, Action], ...]] = (
    (6, create),
    (3, delete),
    (3, grow),
    (4, shrink),
    (5, reassign_replicas),
    (3, elect),
    (6, produce),
    (2, delete_records),
    (3, alter_topic_config),
    (2, alter_broker_config),
    (1, alter_group_config),
    (6, set_quotas),
    (1, upgrade),
    (5, ask_wrongly),
    (1, unregister),
    (3, drain),
    (5, use_group),
)
"""An operator's actions, each with how often it is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The number of operators, and the longest pause of each between two actions."""

    count: int = 0
    pause_max_s: float = 0.7


class Operators(Clients[BrokerCluster]):
    """Operators that work until `finish`."""

    def __init__(
        self,
        cluster: BrokerCluster,
        metadata: CommittedMetadata,
        source: random.Random,
        settings: OperatorSettings,
        budget: LossBudget,
    ) -> None:
        super().__init__(cluster, source)
        self._pause_max_s = settings.pause_max_s
        self.history = AdminHistory(owned=is_owned)
        metadata.rules += (
            self.history.committed,
            RemovedTopicsStayRemoved(once=is_owned).committed,
            UnregisteredBrokersStayOut().committed,
        )
        self._operators = [
            OperatorClient(cluster, self.history, number, self._derived(), self._finish, budget)
            for number in range(1, settings.count + 1)
        ]

    async def prepare(self) -> None:
        """Prepare the cluster before faults begin."""
        for operator in self._operators[:1]:
            await offsets_topic(operator)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for operator in self._operators:
                nursery.start_soon(self._operate, operator)

    async def _operate(self, operator: OperatorClient) -> None:
        weights = [weight for weight, _ in ACTIONS]
        while True:
            await self._pause(operator.random, self._pause_max_s)
            if self._finish.is_set():
                return
            _, action = operator.random.choices(ACTIONS, weights)[0]
            await action(operator)

    @property
    def calls(self) -> int:
        """The number of calls that were answered, or given up."""
        return sum(self.history.counts.values())

    async def check(self) -> None:
        """Check that the replicas of every partition of the operators' topics hold the same: all acknowledged
        records, and no removed one. Brokers that were drained have none of them, and groups have their
        acknowledged offsets. For a cluster that is idle and in sync. Raises `SafetyViolation`."""
        for operator in self._operators:
            for topic in operator.topics:
                self._check_drained(topic)
                await self._check_topic(topic)
            await check_groups(operator)

    def _check_drained(self, topic: OwnTopic) -> None:
        for broker_id in topic.drained:
            node = self._cluster.nodes[broker_id - 1]
            folders = {folder for directory in node.log_dirs for folder in node.disk.list(directory)}
            for wrong in still_there(broker_id, topic.name, self._cluster.states(topic.name), folders):
                raise SafetyViolation(f"DrainedBrokersStayEmpty: {wrong}")

    async def _check_topic(self, topic: OwnTopic) -> None:
        for partition_id, state in self._cluster.states(topic.name).items():
            named = f"{topic.name}-{partition_id}"
            records = topic.records_of(partition_id)
            first: Held | None = None
            for broker_id in state.replicas:
                held = await self._held(self._cluster.nodes[broker_id - 1], topic.name, partition_id)
                first = first or held
                if records.differ(first, held):
                    raise SafetyViolation(
                        f"ReplicasAgree: brokers {state.replicas[0]} and {broker_id} are in sync and "
                        f"differ in {named}: {first} and {held}"
                    )
                if topic.unclean or topic.counted is Counted.UNSURE:
                    continue
                for wrong in records.wrong(held):
                    raise SafetyViolation(
                        f"RemovedRecordsStayRemoved: the replica of {named} on {broker_id} {wrong}"
                    )

    async def _held(self, node: BrokerHost, name: str, partition_id: int) -> Held:
        broker = node.serving.broker
        assert broker is not None
        log = broker.replicas.lookups.partition(name, partition_id).log
        start = log.log_start_offset
        pairs = await everything_of(log)
        return Held(int(start), tuple((offset, value) for offset, value in pairs if offset >= start))


def is_owned(name: str) -> bool:
    """Return whether only operators change the topic of that name, or the config of the group."""
    return name.startswith(PREFIX)
