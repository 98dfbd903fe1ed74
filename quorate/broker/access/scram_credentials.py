"""The users of a cluster for logins, by its metadata."""

import hashlib
import math
from collections.abc import Callable
from typing import Final

import trio

from quorate.broker.access.sealing import SETTING, SealBrokenError, Sealer, UnknownSealingKeyError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ScramMechanism, UserScramCredential
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.credentials import ScramCredential
from quorate.runtime import get_logger

log = get_logger(__name__)

_SAID_EVERY_S: Final = 10.0


def has_password(image: MetadataImage, user: str, mechanism: SaslMechanism) -> bool:
    """Return whether a user may log in by the mechanism. For PLAIN any password will do. Users of tokens have
    none: how long they may stay is in the token."""
    if mechanism is SaslMechanism.OAUTHBEARER:
        return True
    if mechanism is SaslMechanism.PLAIN:
        return bool(image.scram_credentials_of(user))
    return image.scram_credential(user, ScramMechanism[mechanism.name]) is not None


class MetadataCredentials:
    """`quorate.broker.wire.sasl.credentials.Credentials`, of the image that a node has at the moment."""

    __slots__ = ("_cluster_id", "_image", "_said_at", "_sealer")

    def __init__(
        self, image: Callable[[], MetadataImage], *, cluster_id: str, sealer: Sealer | None = None
    ) -> None:
        """`sealer`: opens credentials; without one those that are sealed are of no use."""
        self._image = image
        self._cluster_id = cluster_id
        self._sealer = sealer
        self._said_at = -math.inf

    @property
    def fake_salt_secret(self) -> bytes:
        """Made of the key that seals, or without one of the first user's server key: both are the same on all
        nodes, and known to them only. Without users there is nobody to guess."""
        if self._sealer is not None:
            return self._sealer.fake_salt_secret
        first = self._image().first_scram_credential
        return hashlib.sha256(self._cluster_id.encode() if first is None else first.server_key).digest()

    def credential(self, user: str, mechanism: SaslMechanism) -> ScramCredential | None:
        """Return the user's credential; None if there is none, or none that this node can open."""
        held = self._image().scram_credential(user, ScramMechanism[mechanism.name])
        opened = None if held is None else self._opened(held)
        if opened is None:
            return None
        return ScramCredential(
            salt=opened.salt,
            stored_key=opened.stored_key,
            server_key=opened.server_key,
            iterations=opened.iterations,
        )

    def _opened(self, held: UserScramCredential) -> UserScramCredential | None:
        if not held.sealed_by:
            return held
        try:
            if self._sealer is None:
                raise UnknownSealingKeyError(held.sealed_by)
            return self._sealer.open(held)
        except (UnknownSealingKeyError, SealBrokenError) as error:
            now = trio.current_time()
            if now - self._said_at >= _SAID_EVERY_S:
                self._said_at = now
                log.error(
                    "a login is refused, because the user's credential can't be opened",
                    user=held.name,
                    reason=str(error),
                    remedy=f"put key {held.sealed_by} into the file of {SETTING}, as on the other nodes",
                )
            return None
