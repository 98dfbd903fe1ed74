"""Clients and brokers by their certificates."""

from collections.abc import Callable, Sequence

from quorate.broker.wire.principal_rules import DEFAULT_RULES, PrincipalRules
from quorate.broker.wire.principals import ANONYMOUS, NODE, Principal
from quorate.raft.transport.identities import identity_at, node_at
from quorate.runtime import (
    MEMBERS,
    Address,
    CertificateEnd,
    Listener,
    Network,
    Stream,
    TlsError,
    TlsFiles,
    TlsTerms,
)


def principal_of(stream: Stream, cluster_id: str, rules: PrincipalRules = DEFAULT_RULES) -> Principal:
    """Return who is at the other end of a connection, after its handshake. A certificate that names a member
    of the cluster makes its node or client, any other what `rules` make of its subject, as in Kafka. Raises
    `TlsError` if it names a member of another cluster, or no rule fits."""
    if not stream.identities or not any(each.startswith("quorate:") for each in stream.identities):
        if stream.subject is None:
            return ANONYMOUS
        name = rules.name_of(stream.subject)
        if name is None:
            raise TlsError(
                f"{stream.peer}: no rule of ssl.principal.mapping.rules fits its certificate's subject "
                f"{stream.subject!r:.200}"
            )
        return Principal("User", name)
    member = identity_at(stream, cluster_id)
    if member is None:
        return ANONYMOUS
    return Principal("User", member.client) if member.node is None else Principal(NODE, str(member.node))


class BrokerNetwork:
    """`quorate.runtime.network.Network` to other brokers, each of which has to show its own certificate."""

    def __init__(
        self, secured: Network, *, cluster_id: str, brokers_at: Callable[[Address], frozenset[int]]
    ) -> None:
        """`brokers_at`: the brokers that have an address for each other."""
        self._secured = secured
        self._cluster_id = cluster_id
        self._brokers_at = brokers_at

    @property
    def identities(self) -> tuple[str, ...] | None:
        return self._secured.identities

    @property
    def certificates(self) -> Sequence[CertificateEnd]:
        return self._secured.certificates

    async def connect(self, address: Address) -> Stream:
        stream = await self._secured.connect(address)
        try:
            node = node_at(stream, self._cluster_id)
            if node is not None and node not in (expected := self._brokers_at(address)):
                named = ", ".join(str(each) for each in sorted(expected)) or "none"
                raise TlsError(
                    f"{stream.peer}: its certificate is that of node {node}, and the broker at this address "
                    f"is {named}; correct advertised.listeners, or give that broker its own certificate"
                )
        except BaseException:
            stream.close()
            raise
        return stream

    async def listen(self, address: Address) -> Listener:
        return await self._secured.listen(address)

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> Network:
        return self._secured.secured(files, terms)
