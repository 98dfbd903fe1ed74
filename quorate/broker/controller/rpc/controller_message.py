"""The common part of all requests of brokers to the active controller, and of all its answers.

A field has the bounds that its type says, else 32 bits or 32,767 characters. A client may write anything into
the fields that only pass through its broker. Therefore these are as wide as the message, and the operation
says what is wrong with them. It says the same on a node that leads and by way of one that doesn't.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Generic, Self, TypeAlias, TypeVar

from quorate.bounds import Integer
from quorate.error_code import ErrorCode
from quorate.runtime import Entropy

MAX_MESSAGE_BYTES: Final = 8 << 20
MAX_ITEMS: Final = 10_000
"""The number of topics, partitions or resources in one message."""

Epoch32: TypeAlias = Annotated[int, Integer(low=-1)]
"""The epoch of a leader or of a partition; -1: unknown."""
Position64: TypeAlias = Annotated[int, Integer(bits=64, low=-1)]
"""The epoch of a broker, which is an offset, or an offset; -1: unknown."""
Count: TypeAlias = Annotated[int, Integer(low=0)]

CONTROLLER_CODES: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.INVALID_REGISTRATION,
    }
)
"""The codes of Kafka that a controller answers with. A broker takes no other code from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The success of a request, or of one part of it."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResponse(Outcome):
    """The common fields of all answers."""


R_co = TypeVar("R_co", bound=ControllerResponse, covariant=True)


class ControllerRequest(Generic[R_co]):
    """A request that is answered with an `R_co`."""

    __slots__ = ()
    repeatable: ClassVar[bool] = True
    """Whether it may be sent again when it is not known whether it was carried out."""

    def attempt(self, entropy: Entropy) -> Self:
        """The request as it is sent next."""
        return self

    def after_unknown_outcome(self) -> Self:
        """The request that follows this attempt."""
        return self
