"""The users of a cluster for logins, by its metadata."""

from collections.abc import Callable

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ScramMechanism
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.credentials import ScramCredential


class MetadataCredentials:
    """`quorate.broker.wire.sasl.credentials.Credentials`, of the image that a node has at the moment."""

    __slots__ = ("_image", "_secret")

    def __init__(self, image: Callable[[], MetadataImage], *, fake_salt_secret: bytes) -> None:
        """`fake_salt_secret`: the same on all nodes of the cluster, and known to nobody else."""
        self._image = image
        self._secret = fake_salt_secret

    @property
    def fake_salt_secret(self) -> bytes:
        return self._secret

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
