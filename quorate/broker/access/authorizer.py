"""The question that each handler asks before it acts."""

from typing import Final, Protocol

from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.wire.principals import Principal


class Authorizer(Protocol):
    """Decides, by the metadata as this node knows them."""

    @property
    def version(self) -> object:
        """A value that differs whenever an earlier decision may no longer hold: whoever remembers that a
        request was allowed compares it."""
        ...

    def is_super_user(self, who: Principal) -> bool:
        """Return whether `who` may do everything, whatever the ACLs say."""
        ...

    def allows(
        self,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        audited: bool = True,
        request: str = "",
    ) -> bool:
        """Return whether `who`, from the address `host`, may do `operation`. `audited`: a denial is worth an
        audit line. False where a client asked for all there is and is shown what it may see. `request`: the
        name of the request, for that line."""
        ...

    def allows_some(self, who: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        """Return whether `who` may do `operation` with at least one resource of the type (KIP-679)."""
        ...

    def sender(self, who: Principal, host: str) -> "Sender":
        """Return the way to ask about one principal at one address again and again."""
        ...


class Sender:
    """Asks an authorizer about one principal at one address. A connection keeps it: the authorizer may
    remember in it what it decided."""

    __slots__ = ("authorizer", "host", "who")

    def __init__(self, authorizer: Authorizer, who: Principal, host: str) -> None:
        self.authorizer = authorizer
        self.host = host
        self.who = who

    def allows(
        self,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        audited: bool = True,
        request: str = "",
    ) -> bool:
        """Return whether the sender may do `operation`. See `Authorizer.allows`."""
        return self.authorizer.allows(
            self.who, self.host, operation, resource, name, audited=audited, request=request
        )


class _Open:
    """Everybody may do everything: there is no authorizer."""

    version = None

    def is_super_user(self, who: Principal) -> bool:
        return True

    def allows(
        self,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        audited: bool = True,
        request: str = "",
    ) -> bool:
        return True

    def allows_some(self, who: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        return True

    def sender(self, who: Principal, host: str) -> Sender:
        return Sender(self, who, host)


OPEN: Final[Authorizer] = _Open()
