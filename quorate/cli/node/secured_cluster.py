"""The certificates, the first user and the client files of a local cluster that is protected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from quorate.runtime import Entropy, need
from quorate.types import NodeId

ADMIN: Final = "admin"
CLIENTS: Final = "CLIENTS"
"""The name of the listener for clients."""
BROKERS: Final = "BROKERS"
"""The name of the listener by which brokers reach each other."""
_FOLDER: Final = "secrets"
_MECHANISM: Final = "SCRAM-SHA-512"
ITERATIONS: Final = 4096


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

    @property
    def certificate_file(self) -> Path:
        """The properties of the same user by certificate, on the listener of brokers. It needs no password,
        so it makes the first one."""
        return self.folder / f"{ADMIN}-certificate.properties"

    @property
    def sealing_keys(self) -> Path:
        """The keys that seal users' credentials in the metadata log."""
        return self.folder / "sealing.key"

    def create(self, cluster_id: str, nodes: Sequence[int], host: str, entropy: Entropy) -> None:
        """Make what is missing. Raises `CertificateError`, `MissingExtraError`."""
        need("A protected cluster", "cryptography", extra="certs")
        from quorate.broker.access.sealing import draw_key_line
        from quorate.certs import CertificateFolder, keystore_of, write_private

        certificates = CertificateFolder(self.folder, now=datetime.now(UTC))
        if not certificates.authorities.exists():
            certificates.create_authority(cluster_id)
        for node in nodes:
            if not self._keystore(node).exists():
                certificates.create_node(NodeId(node), hosts=_hosts(host))
        if not self.sealing_keys.exists():
            write_private(self.sealing_keys, draw_key_line(entropy).encode())
        authorities = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authorities),
        }
        if not self.certificate_file.exists():
            keystore = keystore_of(certificates.create_client(ADMIN).certificate)
            own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
            text = _text_of({"security.protocol": "SSL", **own, **authorities})
            write_private(self.certificate_file, text.encode())
        if self.client_file.exists():
            return
        password = entropy.uuid().hex + entropy.uuid().hex
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        java = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": f'{module} required username="{ADMIN}" password="{password}";',
            **authorities,
        }
        librdkafka = {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": _MECHANISM,
            "sasl.username": ADMIN,
            "sasl.password": password,
            "ssl.ca.location": str(certificates.authorities),
        }
        write_private(self.librdkafka_file, _text_of(librdkafka).encode())
        write_private(self.client_file, _text_of(java).encode())

    @property
    def password(self) -> str:
        """The password in the client files."""
        line = next(
            each
            for each in self.librdkafka_file.read_text().splitlines()
            if each.startswith("sasl.password=")
        )
        return line.partition("=")[2]

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
            "scram.sealing.key.location": str(self.sealing_keys),
        }

    def _keystore(self, node: int) -> Path:
        return self.folder / f"node-{node}-keystore.pem"


def _hosts(host: str) -> Sequence[str]:
    return sorted({host, "localhost", "127.0.0.1"})


def _text_of(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())
