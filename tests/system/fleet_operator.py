"""The operator of a whole broker and of the cluster's features, under all faults.

A spare broker gets replicas, is drained, killed, unregistered and started again. Features go up and down.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from tests.kit.namespaces import NODES
from tests.system.node_connections import PATIENCE_S, Cluster

COMMAND: Final = (sys.executable, "-m", "quorate.cli.main")
DRAIN_S: Final = 15.0
"""The limit of a drain. It goes on by itself."""
SEEN_S: Final = 20.0
"""The time until brokers know of an answered change, whatever happens to them meanwhile."""
SETTLED_S: Final = 60.0
"""The limit of a verb when nothing else happens any more."""
FEATURE: Final = "kraft.version"


@dataclass
class Fleet:
    """The operator. `spare` is a broker and no controller, and only this operator gives it replicas."""

    cluster: Cluster
    spare: int
    unknown: set[ErrorCode]
    """Errors after which the request may have been carried out."""
    draw: random.Random
    levels: set[int] = field(default_factory=lambda: {0})
    """The possible levels of `kraft.version`."""
    holds: bool = True
    """True if the spare broker may have replicas."""
    topics: dict[str, bool] = field(default_factory=dict)
    """The topics by name. True: the topic has to be there."""
    wrong: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)

    async def run(self) -> None:
        verbs = [self.spread, self.drain, self.replace, self.upgrade, self.downgrade, self.unsupported]
        while True:
            self.draw.shuffle(verbs)
            for verb in verbs:
                outcome = await verb()
                self.history.append(f"{verb.__name__}: {outcome}")
                await trio.sleep(self.draw.uniform(0, 0.3))

    async def finish(self) -> None:
        """Carry out each verb once more, until it is done, now that nothing else happens."""
        for verb in (self.spread, self.drain, self.replace, self.upgrade):
            with trio.move_on_after(SETTLED_S):
                while (outcome := await verb()) != "done":
                    self.history.append(f"at last {verb.__name__}: {outcome}")
                    await trio.sleep(0.5)
                self.history.append(f"at last {verb.__name__}: done")
                continue
            self.wrong.append(f"{verb.__name__} is not done {SETTLED_S:g} s after all faults")
        if (refused := await self.downgrade()) == "done":
            self.wrong.append(f"at last downgrade: {refused}")

    def outcomes(self) -> dict[str, int]:
        return {each: self.history.count(each) for each in sorted(set(self.history))}

    # Verbs: each returns what came of it

    async def spread(self) -> str:
        """Create a topic with replicas on the spare broker."""
        name, others = f"fleet-{len(self.topics)}", self.draw.sample(NODES, 2)
        self.topics[name], self.holds = False, True
        assignments = [
            {"partition_index": 0, "broker_ids": (self.spare, others[0])},
            {"partition_index": 1, "broker_ids": (others[1], self.spare)},
        ]
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "configs": ()}
        answer = await self.ask(
            ApiKey.CREATE_TOPICS,
            topics=[topic | {"assignments": assignments}],
            timeout=timedelta(seconds=2.5),
        )
        code = None if answer is None else answer.topics[0].error_code
        self.topics[name] = code is ErrorCode.none
        return self.outcome(code)

    async def drain(self) -> str:
        words = ["brokers", "drain", str(self.spare), "-b", self.cluster.namespaces.bootstrap]
        with trio.move_on_after(DRAIN_S):
            done = await trio.run_process(
                [*COMMAND, *words], check=False, capture_stdout=True, capture_stderr=True
            )
            if done.returncode == 0:
                await self.see("a drained broker has replicas", lambda view: not view.replicas)
                self.holds = False
                return "done"
            return "not done"
        return "unknown"

    async def replace(self) -> str:
        """Kill the broker, unregister it, and start it again."""
        nodes = self.cluster.namespaces
        await trio.to_thread.run_sync(nodes.kill, self.spare)
        try:
            answer = await self.ask(ApiKey.UNREGISTER_BROKER, broker_id=self.spare)
            code = None if answer is None else answer.error_code
            if code is ErrorCode.none:
                await self.see("an unregistered broker is registered", lambda view: view.registered is None)
            return self.outcome(code)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(nodes.start, self.spare)

    async def upgrade(self) -> str:
        code = await self.update(FEATURE, 1, upgrade_type=1)
        if code is ErrorCode.none:
            self.levels = {1}
        elif code is None or code in self.unknown:
            self.levels |= {1}
        return self.outcome(code)

    async def downgrade(self) -> str:
        """Downgrade the feature. It has to be refused where the level is 1, and changes nothing where it is
        0."""
        code = await self.update(FEATURE, 0, upgrade_type=2)
        if code is ErrorCode.none and 0 not in self.levels:
            self.wrong.append(f"{FEATURE} was downgraded")
        return self.outcome(code)

    async def unsupported(self) -> str:
        code = await self.update("metadata.version", 2, upgrade_type=1)
        if code is ErrorCode.none:
            self.wrong.append("metadata.version was upgraded to a level that nobody supports")
        return self.outcome(code)

    async def update(self, feature: str, level: int, *, upgrade_type: int) -> ErrorCode | None:
        row = {"feature": feature, "max_version_level": level, "upgrade_type": upgrade_type}
        answer = await self.ask(
            ApiKey.UPDATE_FEATURES,
            feature_updates=[row],
            timeout=timedelta(seconds=2.5),
            validate_only=False,
        )
        return None if answer is None else answer.error_code

    def outcome(self, code: ErrorCode | None) -> str:
        if code is None or code in self.unknown:
            return "unknown"
        return "done" if code is ErrorCode.none else f"refused ({code.name})"

    async def ask(self, api: ApiKey, **values: Any) -> Any:
        """Ask any broker. None: its answer is not known."""
        try:
            with trio.fail_after(PATIENCE_S):
                return await self.cluster.call(self.draw.choice(NODES), api, **values)
        except Exception:
            return None

    # Comparisons

    async def see(self, what: str, condition: Callable[["View"], bool]) -> None:
        """Wait until a broker shows it. Note it as wrong if none does."""
        with trio.move_on_after(SEEN_S):
            while True:
                for node in NODES:
                    try:
                        with trio.fail_after(PATIENCE_S):
                            if condition(await self.view(node)):
                                return
                    except Exception:
                        continue
                await trio.sleep(0.1)
        self.wrong.append(f"{what} {SEEN_S:g} s later")

    async def view(self, node: int) -> "View":
        cluster = await self.cluster.call(node, ApiKey.DESCRIBE_CLUSTER, include_fenced_brokers=True)
        metadata = await self.cluster.call(node, ApiKey.METADATA, topics=None)
        versions = await self.cluster.call(node, ApiKey.API_VERSIONS)
        states = {each.broker_id: not each.is_fenced for each in cluster.brokers}
        levels = {each.name: each.max_version_level for each in versions.finalized_features}
        return View(
            registered=states.get(self.spare),
            replicas={
                (topic.name, part.partition_index)
                for topic in metadata.topics
                for part in topic.partitions
                if self.spare in part.replica_nodes
            },
            topics={topic.name for topic in metadata.topics},
            level=levels.get(FEATURE, 0),
        )

    async def compare(self, nodes: tuple[int, ...]) -> list[str]:
        """Return the differences between the answers that the operator got and the cluster as any of the
        brokers shows it."""
        wrong, there = list(self.wrong), {name for name, known in self.topics.items() if known}
        for node in nodes:
            view = await self.view(node)
            if view.registered is not True:
                wrong.append(f"broker {node}: broker {self.spare} runs and is not live: {view.registered}")
            if not self.holds and view.replicas:
                wrong.append(f"broker {node}: the drained broker has {view.replicas}")
            if view.level not in self.levels:
                wrong.append(f"broker {node}: {FEATURE} is {view.level}, and may be {self.levels}")
            if missing := there - view.topics:
                wrong.append(f"broker {node}: {missing} are missing")
        return [*wrong, *self.history] if wrong else []


@dataclass(frozen=True)
class View:
    """The cluster as one broker shows it."""

    registered: bool | None
    """True if the spare broker is live. None: it is not registered."""
    replicas: set[tuple[str, int]]
    """The replicas of the spare broker."""
    topics: set[str]
    level: int
    """The level of `kraft.version`."""
