"""Several quorums' metrics in one registry: one collector for each registry, whose families have the samples
of all of them. Prometheus knows a family only once, and a registry refuses a second collector of its names.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry


class RegistryMember(Protocol):
    """The metrics of one quorum: the same families as the others', with other labels."""

    @property
    def labels(self) -> dict[str, str]: ...

    def collect(self) -> Iterable[Metric]: ...


class _Together(Collector):
    def __init__(self) -> None:
        self.members: tuple[RegistryMember, ...] = ()

    def describe(self) -> Iterable[Metric]:
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        merged: dict[str, Metric] = {}
        for member in self.members:
            for family in member.collect():
                held = merged.setdefault(family.name, family)
                if held is not family:
                    held.samples.extend(family.samples)
        yield from merged.values()


_registries: WeakKeyDictionary[CollectorRegistry, ReferenceType[_Together]] = WeakKeyDictionary()
"""Each registry holds its collector. A strong value here would hold its key, by the members, for ever."""


def _collector_of(registry: CollectorRegistry) -> _Together | None:
    held = _registries.get(registry)
    return None if held is None else held()


def join(registry: CollectorRegistry, member: RegistryMember) -> None:
    """Show `member` in `registry`, beside those that are there. Raises `ValueError` for labels that another
    one there has, or if something else in the registry has the names."""
    together = _collector_of(registry)
    if together is None:
        together = _Together()
        together.members = (member,)
        registry.register(together)
        _registries[registry] = ref(together)
        return
    if any(other.labels == member.labels for other in together.members):
        said = ", ".join(f"{name}={value!r}" for name, value in member.labels.items()) or "none"
        raise ValueError(
            f"another quorum's metrics in this registry have the same labels ({said}); tell them apart, as "
            'by labels={"quorum": "orders"}, or take the other ones out first: RaftMetrics.unregister()'
        )
    together.members = (*together.members, member)


def leave(registry: CollectorRegistry, member: RegistryMember) -> None:
    """Remove `member` from `registry`. No effect if it is not there."""
    together = _collector_of(registry)
    if together is None:
        return
    together.members = tuple(other for other in together.members if other is not member)
    if not together.members:
        del _registries[registry]
        registry.unregister(together)
