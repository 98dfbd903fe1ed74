"""The users of a cluster for logins, by its metadata."""

import hashlib
from collections.abc import Callable

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ScramMechanism
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.credentials import ScramCredential


class MetadataCredentials:
    """`quorate.broker.wire.sasl.credentials.Credentials`, of the image that a node has at the moment."""

    __slots__ = ("_cluster_id", "_image")

    def __init__(self, image: Callable[[], MetadataImage], *, cluster_id: str) -> None:
        self._image = image
        self._cluster_id = cluster_id

    @property
    def fake_salt_secret(self) -> bytes:
        """Made of the first user's server key, which is the same on all nodes, and known to them only.
        Without users there is nobody to guess."""
        first = self._image().first_scram_credential
        return hashlib.sha256(self._cluster_id.encode() if first is None else first.server_key).digest()

    def credential(self, user: str, mechanism: SaslMechanism) -> ScramCredential | None:
        """Return the user's credential; None if there is none."""
        held = self._image().scram_credential(user, ScramMechanism[mechanism.name])
        if held is None:
            return None
        return ScramCredential(
            salt=held.salt,
            stored_key=held.stored_key,
            server_key=held.server_key,
            iterations=held.iterations,
        )
