"""The placement of a new partition's replicas on brokers."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from quorate.broker.metadata import ApiError
from quorate.error_code import ErrorCode


def place(
    active: Sequence[int],
    *,
    fenced: Sequence[int] = (),
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
) -> Iterator[tuple[int, ...]]:
    """Replicas for each of `partitions` partitions, leaders first, spread evenly over the brokers.

    Leaders go round from `start`; followers from `shift` places further on, one more with each full round, so
    that the partitions that a broker leads have their followers on different brokers (Kafka's
    AdminUtils). Fenced brokers get replicas only where the active ones are too few, and never lead: a
    topic can be created while a broker is down (KIP-841 keeps it out of the ISR until it is back). Raises
    `ApiError` if there are fewer brokers than `replication_factor`, or none is active.
    """
    if not active or replication_factor > len(active) + len(fenced):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): "
            f"there are only {len(active) + len(fenced)} broker(s), {len(active)} of them active.",
        )
    spread = min(replication_factor, len(active))
    ordered, spare = sorted(active), sorted(fenced)
    count = len(ordered)

    def replicas(partition: int) -> tuple[int, ...]:
        first = (partition + start) % count
        # With the leader's place taken, followers share the remaining count - 1.
        step = shift + partition // count
        followers = (ordered[(first + 1 + (step + nth) % (count - 1)) % count] for nth in range(spread - 1))
        fill = (spare[(partition + nth) % len(spare)] for nth in range(replication_factor - spread))
        return (ordered[first], *followers, *fill)

    return map(replicas, range(partitions))


def check_manual(replicas: Sequence[int], *, registered: AbstractSet[int], factor: int | None) -> None:
    """Refuse with `ApiError` a manual assignment that is empty, names a broker twice, one that is not
    registered, or another number of them than `factor` where that is given."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise ApiError(code, "The manual partition assignment includes an empty replica list.")
    if len(set(replicas)) != len(replicas):
        raise ApiError(
            code, f"The manual partition assignment {list(replicas)} names a broker more than once."
        )
    unknown = [broker for broker in replicas if broker not in registered]
    if unknown:
        raise ApiError(
            code, f"The manual partition assignment includes broker {unknown[0]}, but it is not registered."
        )
    if factor is not None and len(replicas) != factor:
        raise ApiError(
            code,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), "
            f"but this is not consistent with the others, which have {factor}.",
        )
