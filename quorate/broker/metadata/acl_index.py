"""The ACLs of an image, found by the name of a resource and by the principal."""

import uuid
from collections.abc import Iterator, Mapping

from quorate.broker.metadata.acls import (
    EVERYBODY,
    WILDCARD,
    Acl,
    AclFilter,
    PatternType,
    ResourceType,
)
from quorate.broker.metadata.states import ImageError

Pattern = tuple[ResourceType, PatternType, str]
"""What the name of an ACL means."""


class AclIndex:
    """ACLs by their ids. A change takes time for those of one pattern and principal, a look-up for each
    length that a prefix has, and a copy for each ACL."""

    __slots__ = ("_acls", "_counts", "_found", "_ids", "_lengths", "version")

    def __init__(self) -> None:
        self.version: object = object()
        """Another object after each change. A copy has the same as long as both are equal."""
        self._acls: dict[uuid.UUID, Acl] = {}
        self._ids: dict[Acl, uuid.UUID] = {}
        self._found: dict[tuple[Pattern, str], tuple[Acl, ...]] = {}
        """The ACLs of each pattern and principal. Never empty, and replaced as a whole: copies share them."""
        self._counts: dict[Pattern, int] = {}
        """The number of ACLs of each pattern that has any."""
        self._lengths: dict[ResourceType, dict[int, int]] = {}
        """The number of prefixed patterns of each length, by type. Never 0."""

    def copy(self) -> "AclIndex":
        """Return an independent index that is equal."""
        twin = AclIndex()
        twin.version = self.version
        twin._acls = self._acls.copy()
        twin._ids = self._ids.copy()
        twin._found = self._found.copy()
        twin._counts = self._counts.copy()
        twin._lengths = {kind: lengths.copy() for kind, lengths in self._lengths.items()}
        return twin

    def __eq__(self, other: object) -> bool:
        """True if both have the same ACLs under the same ids."""
        return self._acls == other._acls if isinstance(other, AclIndex) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __len__(self) -> int:
        return len(self._acls)

    @property
    def by_id(self) -> Mapping[uuid.UUID, Acl]:
        return self._acls

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._ids

    def chosen(self, wanted: AclFilter) -> Iterator[tuple[uuid.UUID, Acl] | None]:
        """Yield the ACLs that the filter takes, with their ids, and None for each other that was compared. A
        filter with a type, a name and a principal is compared with few."""
        kind, name, principal = wanted.resource_type, wanted.name, wanted.principal
        if kind is None or name is None or principal is None:
            for acl_id, acl in self._acls.items():
                yield (acl_id, acl) if wanted.takes(acl) else None
            return
        exact = ((kind, pattern, name) for pattern in PatternType)
        for pattern in dict.fromkeys((*exact, *self.patterns(kind, name))):
            for acl in self._found.get((pattern, principal), ()):
                yield (self._ids[acl], acl) if wanted.takes(acl) else None

    def for_resource(self, kind: ResourceType, name: str, principal: str) -> Iterator[Acl]:
        """Yield the ACLs whose pattern means the resource, and whose principal is this one or everybody."""
        for pattern in self.patterns(kind, name):
            for who in dict.fromkeys((principal, EVERYBODY)):
                yield from self._found.get((pattern, who), ())

    def has_any(self, kind: ResourceType, name: str) -> bool:
        """Return whether any ACL's pattern means the resource, whoever it is for."""
        return next(self.patterns(kind, name), None) is not None

    def patterns(self, kind: ResourceType, name: str) -> Iterator[Pattern]:
        """Yield the patterns of ACLs that mean the resource."""
        for literal in dict.fromkeys((name, WILDCARD)):
            pattern = (kind, PatternType.LITERAL, literal)
            if pattern in self._counts:
                yield pattern
        for length in self._lengths.get(kind, ()):
            pattern = (kind, PatternType.PREFIXED, name[:length])
            # A name that is shorter than the prefix is found as a shorter prefix, by its own length.
            if length <= len(name) and pattern in self._counts:
                yield pattern

    def add(self, acl_id: uuid.UUID, acl: Acl) -> None:
        """Add an ACL. Raises `ImageError`, and changes nothing, if the id or the ACL is there."""
        if acl_id in self._acls or acl in self._ids:
            raise ImageError(f"ACL {acl_id} is there already, by its id or as {self._ids.get(acl)}")
        self._acls[acl_id] = acl
        self._ids[acl] = acl_id
        pattern = pattern_of(acl)
        place = (pattern, acl.principal)
        self._found[place] = (*self._found.get(place, ()), acl)
        count = self._counts[pattern] = self._counts.get(pattern, 0) + 1
        if count == 1 and acl.pattern is PatternType.PREFIXED:
            lengths = self._lengths.setdefault(acl.resource_type, {})
            lengths[len(acl.name)] = lengths.get(len(acl.name), 0) + 1
        self.version = object()

    def remove(self, acl_id: uuid.UUID) -> None:
        """Remove an ACL. Raises `ImageError`, and changes nothing, if it isn't there."""
        acl = self._acls.pop(acl_id, None)
        if acl is None:
            raise ImageError(f"ACL {acl_id} is removed, but is not there")
        del self._ids[acl]
        pattern = pattern_of(acl)
        place = (pattern, acl.principal)
        others = tuple(each for each in self._found[place] if each != acl)
        if others:
            self._found[place] = others
        else:
            del self._found[place]
        self._counts[pattern] -= 1
        if not self._counts[pattern]:
            del self._counts[pattern]
            if acl.pattern is PatternType.PREFIXED:
                self._forget_length(acl.resource_type, len(acl.name))
        self.version = object()

    def _forget_length(self, kind: ResourceType, length: int) -> None:
        lengths = self._lengths[kind]
        lengths[length] -= 1
        if not lengths[length]:
            del lengths[length]


def pattern_of(acl: Acl) -> Pattern:
    """Return the pattern of an ACL."""
    return acl.resource_type, acl.pattern, acl.name
