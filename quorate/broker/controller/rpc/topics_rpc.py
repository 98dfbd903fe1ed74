"""The requests that change how many partitions a topic has."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from quorate.broker.controller.rpc.rpc import ControllerRequest, ControllerResponse, Requester
from quorate.error_code import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic that is to have more partitions."""

    name: str
    count: int
    """Partitions in all."""
    assignments: tuple[tuple[int, ...], ...] | None = None
    """The replicas of each new one; None: the controller places them."""
    may_be_done: bool = False
    """The outcome of an earlier attempt is not known: a topic that has `count` partitions is what was
    asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest(ControllerRequest["CreatePartitionsResponse"]):
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False
    who: Requester | None = None

    def after_unknown_outcome(self) -> Self:
        """Take what this attempt has done, if it has, for done."""
        if self.validate_only:
            return self
        return replace(self, topics=tuple(replace(topic, may_be_done=True) for topic in self.topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedTopic:
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse(ControllerResponse):
    topics: tuple[ExtendedTopic, ...] = ()
    throttle_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerPartitions:
    """A topic that is to lose its last partitions, with their records."""

    name: str
    count: int
    """Partitions that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkTopicsRequest(ControllerRequest["ShrinkTopicsResponse"]):
    """Ours: Kafka's protocol has none."""

    repeatable: ClassVar[bool] = False
    """The topic may have grown again by then."""
    topics: tuple[FewerPartitions, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkTopic:
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkTopicsResponse(ControllerResponse):
    topics: tuple[ShrunkTopic, ...] = ()
