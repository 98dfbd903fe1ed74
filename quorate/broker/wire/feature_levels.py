"""The features of a cluster in ApiVersions (KIP-584)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SupportedFeature:
    """The levels that this broker can work at, both inclusive; 0 is off."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True)
class Features:
    """`finalized`: the levels that the cluster works at, by name, without those at 0. `epoch`: the metadata
    offset of that knowledge; -1: nothing is known yet."""

    supported: tuple[SupportedFeature, ...] = ()
    finalized: tuple[tuple[str, int], ...] = ()
    epoch: int = -1


NO_FEATURES = Features()
