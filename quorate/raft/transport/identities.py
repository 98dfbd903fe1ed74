"""The identity at the other end of a connection, by its certificate.

A certificate names one node, or one client, of one cluster by a URI: `quorate://CLUSTER/node/3`. So one that
was stolen from node 3 acts as node 3 and as no other: each id that a request or an answer claims is compared
with it.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from quorate.raft.core import FetchRequest, FetchSnapshotRequest, Message, VoteRequest
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.runtime import Network, Stream, TlsError, TlsFiles, TlsFilesError, TlsTerms, TlsUse
from quorate.types import NodeId


@dataclass(frozen=True, slots=True)
class Identity:
    """A node or a client of a cluster."""

    cluster_id: str
    node: NodeId | None
    """None: a client."""
    client: str = ""

    @property
    def uri(self) -> str:
        """The name in certificates."""
        member = f"client/{quote(self.client, safe='')}" if self.node is None else f"node/{self.node}"
        return f"quorate://{quote(self.cluster_id, safe='')}/{member}"

    def __str__(self) -> str:
        who = f"client {self.client}" if self.node is None else f"node {self.node}"
        return f"{who} of cluster {self.cluster_id}"

    @classmethod
    def parse(cls, uri: str) -> "Identity | None":
        """Return the identity that a URI names. None: it is another kind of URI."""
        try:
            # Not `hostname`, which is in lower case.
            scheme, cluster, path, query, fragment = urlsplit(uri)
        except ValueError:
            return None
        kind, separator, name = path.removeprefix("/").partition("/")
        if scheme != "quorate" or not cluster or not separator or not name or query or fragment:
            return None
        if kind == "client":
            found = cls(unquote(cluster), None, unquote(name))
        elif kind == "node" and name.isascii() and name.isdecimal():
            found = cls(unquote(cluster), NodeId(int(name)))
        else:
            return None
        # One identity has one URI: no other spelling of it.
        return found if found.uri == uri else None


def authority_uri(cluster_id: str) -> str:
    """Return the name of a cluster's authority in its own certificate."""
    return f"quorate://{quote(cluster_id, safe='')}/ca"


def signer_uri(cluster_id: str) -> str:
    """Return the name of the server at which nodes join a cluster (`quorate certs sign`). It is no member."""
    return f"quorate://{quote(cluster_id, safe='')}/signer"


def cluster_of_authority(uri: str) -> str | None:
    """Return the cluster whose authority a URI names. None: it is another kind of URI."""
    cluster_id = unquote(uri.removeprefix("quorate://").removesuffix("/ca"))
    return cluster_id if cluster_id and uri == authority_uri(cluster_id) else None


def identity_at(stream: Stream, cluster_id: str) -> Identity | None:
    """Return who is at the other end. None: there is no TLS, so it may be anybody. `cluster_id`: empty: any.
    Raises `TlsError` if the certificate names no member of the cluster."""
    if stream.identities is None:
        return None
    found = [each for each in map(Identity.parse, stream.identities) if each is not None]
    if len(found) != 1:
        names = ", ".join(stream.identities) or "no URI"
        raise TlsError(
            f"{stream.peer}: its certificate names {names}, not one member of the cluster; "
            "make it by `quorate certs create-node` or `create-client`"
        )
    (identity,) = found
    if cluster_id and identity.cluster_id != cluster_id:
        raise TlsError(f"{stream.peer}: its certificate is of {identity}, this is cluster {cluster_id}")
    return identity


def secured_as(network: Network, files: TlsFiles, own: Identity, use: TlsUse = TlsUse.REQUIRED) -> Network:
    """Return the same network with TLS, for a member with its own certificate. Raises `TlsFilesError`."""
    secured = network.secured(files, TlsTerms(use=use))
    if secured.identities != (own.uri,):
        names = ", ".join(secured.identities or ()) or "no URI"
        raise TlsFilesError(
            f"the certificate {files.certificate} names {names}, not {own.uri}; make it by "
            f"`quorate certs create-node` for {own}"
        )
    return secured


def node_at(stream: Stream, cluster_id: str) -> NodeId | None:
    """Return the node at the other end. None: there is no TLS. Raises `TlsError` if its certificate is not a
    node's of the cluster."""
    identity = identity_at(stream, cluster_id)
    if identity is None:
        return None
    if identity.node is None:
        raise TlsError(f"{stream.peer}: its certificate is of {identity}, but only nodes are served here")
    return identity.node


def check_node(stream: Stream, cluster_id: str, node: NodeId | None) -> None:
    """Raise `TlsError` if the certificate of the other end is not that of `node`, or of any node of the
    cluster if that is None."""
    found = node_at(stream, cluster_id)
    if found is not None and node is not None and found != node:
        raise TlsError(
            f"{stream.peer}: its certificate is that of node {found}, not of node {node}; correct the "
            "address, or give that node its own certificate"
        )


def check_claims(message: Message, node: NodeId | None) -> None:
    """Raise `PeerProtocolError` if a message claims another id than that of `node`, which has sent it. None:
    the sender is not known."""
    if node is None:
        return
    match message:
        case FetchRequest() | FetchSnapshotRequest():
            claimed = {message.source, message.replica.id}
        case VoteRequest():
            claimed = {message.source, message.candidate.id}
        case _:
            claimed = {message.source}
    if claimed != {node}:
        others = ", ".join(str(each) for each in sorted(claimed - {node}))
        raise PeerProtocolError(f"its certificate is that of node {node}, but it speaks as node {others}")
