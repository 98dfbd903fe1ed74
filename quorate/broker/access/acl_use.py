"""The ACLs that decisions have needed, and so those that nobody would miss."""

from collections.abc import Iterable, Iterator
from typing import Final

from quorate.broker.metadata.acl_index import AclIndex, Pattern, pattern_of
from quorate.broker.metadata.acls import Acl

_SPARE: Final = 1_000


class AclUse:
    """What the decisions of one node have needed since it started.

    A decision needs the ACL that it was made by. Others that would have decided the same count as unused
    until they do.
    """

    __slots__ = ("_needed", "_patterns", "began_at")

    def __init__(self) -> None:
        self.began_at: float | None = None
        """The time of the first decision, by the clock of the authorizer. None: there was none yet."""
        self._needed: set[Acl] = set()
        self._patterns: set[Pattern] = set()
        """Those that keep `allow.everyone.if.no.acl.found` from allowing what was denied."""

    def note(self, acl: Acl) -> None:
        self._needed.add(acl)

    def note_patterns(self, patterns: Iterable[Pattern]) -> None:
        self._patterns.update(patterns)

    def unused(self, acls: Iterable[Acl]) -> Iterator[Acl | None]:
        """Yield those of the ACLs that no decision has needed, and None for each other."""
        for acl in acls:
            used = acl in self._needed or pattern_of(acl) in self._patterns
            yield None if used else acl

    def forget_removed(self, acls: AclIndex) -> None:
        """Drop ACLs that were removed, once there may be many of them."""
        most = 2 * len(acls) + _SPARE
        if len(self._needed) > most:
            self._needed = {each for each in self._needed if each in acls}
        if len(self._patterns) > most:
            self._patterns &= set(map(pattern_of, acls.by_id.values()))
