"""The certificates, the first user and the client files of a local cluster that is protected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quorate.runtime import Entropy, need
from quorate.types import NodeId

if TYPE_CHECKING:
    from quorate.broker.metadata.metadata_records import UserScramCredential

ADMIN: Final = "admin"
CLIENTS: Final = "CLIENTS"
"""The name of the listener for clients."""
BROKERS: Final = "BROKERS"
"""The name of the listener by which brokers reach each other."""
_FOLDER: Final = "secrets"
_MECHANISM: Final = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class ClusterSecrets:
    """The secrets of one cluster, in a folder of mode 0700."""

    folder: Path

    @classmethod
    def of(cls, cluster: Path) -> "ClusterSecrets":
        return cls(cluster / _FOLDER)

    @property
    def client_file(self) -> Path:
        """The properties of the first super user, for `--command-config` and Java's clients."""
        return self.folder / f"{ADMIN}.properties"

    @property
    def librdkafka_file(self) -> Path:
        """The same for librdkafka: kcat's `-F`."""
        return self.folder / f"{ADMIN}.librdkafka"

    def create(
        self, cluster_id: str, nodes: Sequence[int], host: str, entropy: Entropy
    ) -> "Sequence[UserScramCredential] | None":
        """Make what is missing. Return the credentials of the first super user, for the first metadata. None:
        all was there. Raises `CertificateError`, `MissingExtraError`."""
        need("A protected cluster", "cryptography", extra="certs")
        from quorate.certs import CertificateFolder
        from quorate.certs.folder import write_private

        certificates = CertificateFolder(self.folder, now=datetime.now(UTC))
        if not certificates.authorities.exists():
            certificates.create_authority(cluster_id)
        for node in nodes:
            if not self._keystore(node).exists():
                certificates.create_node(NodeId(node), hosts=_hosts(host))
        if self.client_file.exists():
            return None
        password = entropy.uuid().hex + entropy.uuid().hex
        authorities = certificates.authorities
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        java = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": f'{module} required username="{ADMIN}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authorities),
        }
        librdkafka = {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": _MECHANISM,
            "sasl.username": ADMIN,
            "sasl.password": password,
            "ssl.ca.location": str(authorities),
        }
        for path, settings in ((self.librdkafka_file, librdkafka), (self.client_file, java)):
            write_private(path, _text_of(settings).encode())
        return _credentials(password, entropy)

    def settings_of(self, node: int) -> Mapping[str, str]:
        """Return the keys of a node's protection."""
        return {
            "inter.broker.listener.name": BROKERS,
            "listener.security.protocol.map": f"{BROKERS}:SSL,{CLIENTS}:SASL_SSL,CONTROLLER:SSL",
            "ssl.keystore.location": str(self._keystore(node)),
            "ssl.truststore.location": str(self.folder / "ca.pem"),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
        }

    def _keystore(self, node: int) -> Path:
        return self.folder / f"node-{node}-keystore.pem"


def _hosts(host: str) -> Sequence[str]:
    return sorted({host, "localhost", "127.0.0.1"})


def _text_of(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())
