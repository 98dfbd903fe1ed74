"""The creation of topics at their first use: auto-creation, and `__consumer_offsets`."""

from dataclasses import dataclass
from typing import Final

import trio

from quorate.broker.access.asker import Asker
from quorate.broker.controller.rpc import (
    ConfigEntry,
    CreatedTopic,
    CreateTopicsRequest,
    NewTopic,
    Requester,
)
from quorate.broker.controller_channel import ControllerChannel, ControllerTimedOutError
from quorate.broker.groups.offsets_topic import OFFSETS_TOPIC
from quorate.broker.metadata.configs import min_insync_replicas
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.node_config.server_config import ServerConfig
from quorate.error_code import ErrorCode
from quorate.raft import Quorum
from quorate.runtime import get_logger

log = get_logger(__name__)

_TIMEOUT_SECONDS: Final = 5.0
INTERNAL_TOPICS: Final = (OFFSETS_TOPIC,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """The outcome of a creation."""

    error: ErrorCode
    """UNKNOWN_SERVER_ERROR: the outcome is not known."""
    throttle_ms: int = 0
    """The time that the client has to wait for its rate of mutations (KIP-599)."""


class TopicCreator:
    """Creates each topic once at a time, however many ask. The first of them is charged for it."""

    def __init__(
        self,
        config: ServerConfig,
        channel: ControllerChannel,
        metadata: MetadataCache,
        quorum: Quorum[None],
    ) -> None:
        self._config = config
        self._channel = channel
        self._metadata = metadata
        self._quorum = quorum
        self._under_way: dict[str, trio.Event] = {}

    async def create(self, name: str, *, who: Requester, asker: Asker | None) -> Creation:
        """Create a topic with the defaults and wait until this node's metadata has it. Its partitions count
        for the client `who` (KIP-599), and `asker` is who has to be allowed."""
        return await self._create(NewTopic(name=name), who, asker)

    async def create_offsets_topic(self) -> ErrorCode:
        """Create `__consumer_offsets`, which counts for no client. NOT_ENOUGH_REPLICAS while fewer brokers
        are registered than would hold it: a topic created with one replica keeps one. A broker that is down
        for now gets its replica all the same."""
        image = self._metadata.image
        config = self._config
        known = len(image.brokers)
        if config.is_controller:
            known = max(known, len(self._quorum.voters))
        factor = min(config.groups.offsets_topic.replication_factor, known)
        if len(image.brokers) < factor:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        # A topic that isn't there yet has no value of its own.
        least = min_insync_replicas(image, OFFSETS_TOPIC, static=config.static)
        min_isr = min(least, factor)
        created = await self._create(
            NewTopic(
                name=OFFSETS_TOPIC,
                num_partitions=config.groups.offsets_topic.num_partitions,
                replication_factor=factor,
                configs=(
                    ConfigEntry(name="cleanup.policy", value="compact"),
                    ConfigEntry(name="compression.type", value="producer"),
                    ConfigEntry(name="segment.bytes", value=str(config.groups.offsets_topic.segment_bytes)),
                    ConfigEntry(name="min.insync.replicas", value=str(min_isr)),
                ),
            ),
            who=None,
            asker=None,
        )
        return created.error

    async def _create(self, topic: NewTopic, who: Requester | None, asker: Asker | None) -> Creation:
        under_way = self._under_way.get(topic.name)
        if under_way is not None:
            await under_way.wait()
            found = self._metadata.image.topic(topic.name) is not None
            return Creation(error=ErrorCode.NONE if found else ErrorCode.UNKNOWN_SERVER_ERROR)
        done = self._under_way[topic.name] = trio.Event()
        try:
            return await self._create_now(topic, who, asker)
        finally:
            del self._under_way[topic.name]
            done.set()

    async def _create_now(self, topic: NewTopic, who: Requester | None, asker: Asker | None) -> Creation:
        request = CreateTopicsRequest(topics=(topic,), who=who)
        throttle_ms = 0
        with trio.move_on_after(_TIMEOUT_SECONDS):
            try:
                answer = await self._channel.ask(request, timeout_seconds=_TIMEOUT_SECONDS, asker=asker)
            except ControllerTimedOutError as error:
                log.warning("topic was not created", topic=topic.name, reason=str(error))
                return Creation(error=ErrorCode.UNKNOWN_SERVER_ERROR)
            throttle_ms = answer.throttle_ms
            created = answer.topics[0] if answer.topics else CreatedTopic(name=topic.name, error=answer.error)
            if created.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.warning(
                    "topic was not created",
                    topic=topic.name,
                    error=created.error.name,
                    reason=created.error_message,
                )
                return Creation(error=created.error, throttle_ms=throttle_ms)
            await self._metadata.wait_until(lambda image: image.topic(topic.name) is not None)
            return Creation(error=ErrorCode.NONE, throttle_ms=throttle_ms)
        return Creation(error=ErrorCode.UNKNOWN_SERVER_ERROR, throttle_ms=throttle_ms)
