"""The certificates, the first user and the client files of a local cluster that is protected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quorate.cli.node.client_login import ClientLogin, properties_text
from quorate.runtime import need
from quorate.types import NodeId

if TYPE_CHECKING:
    from quorate.broker.metadata.metadata_records import Record
    from quorate.runtime import Entropy, Runtime

ADMIN: Final = "admin"
CLIENTS: Final = "CLIENTS"
"""The name of the listener for clients."""
BROKERS: Final = "BROKERS"
"""The name of the listener by which brokers reach each other."""
_FOLDER: Final = "secrets"
_AUTHORITIES: Final = "ca.pem"


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
        """The properties of the same user by certificate, on the listener of brokers. It needs no
        password."""
        return self.folder / f"{ADMIN}-certificate.properties"

    @property
    def sealing_keys(self) -> Path:
        """The keys that seal users' credentials in the metadata log."""
        return self.folder / "sealing.key"

    @property
    def authorities(self) -> Path:
        """The certificates that vouch for the nodes."""
        return self.folder / _AUTHORITIES

    @property
    def metrics_token(self) -> Path:
        """The token that the metrics endpoints ask for."""
        return self.folder / "metrics.token"

    def create(self, cluster_id: str, nodes: Sequence[int], host: str, entropy: "Entropy") -> None:
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
        if not self.metrics_token.exists():
            write_private(self.metrics_token, f"{entropy.uuid().hex}{entropy.uuid().hex}\n".encode())
        authorities = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authorities),
        }
        if not self.certificate_file.exists():
            keystore = keystore_of(certificates.create_client(ADMIN).certificate)
            own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
            text = properties_text({"security.protocol": "SSL", **own, **authorities})
            write_private(self.certificate_file, text.encode())
        if self.client_file.exists():
            return
        password = entropy.uuid().hex + entropy.uuid().hex
        login = self.login(ADMIN, password)
        librdkafka = "".join(f"{key}={value}\n" for key, value in login.librdkafka().items())
        write_private(self.librdkafka_file, librdkafka.encode())
        write_private(self.client_file, login.java_properties().encode())

    def login(self, user: str, password: str, *, bootstrap: str = "") -> ClientLogin:
        """Return how a user logs in. `bootstrap`: the addresses for its clients."""
        return ClientLogin(
            user=user, password=password, authorities=str(self.authorities), bootstrap_servers=bootstrap
        )

    def first_users(self, runtime: "Runtime") -> Sequence["Record"]:
        """Return the credentials of the first super user, sealed, which new controllers begin with."""
        from quorate.broker.access.sealing import Sealer
        from quorate.broker.admin.first_users import first_user
        from quorate.broker.admin.users import SCRAM_NAMES

        told = f"[name={ADMIN},password={self.password}]"
        sealer = Sealer(runtime.disk, str(self.sealing_keys))
        users = [first_user(f"{mechanism}={told}", runtime.entropy) for mechanism in SCRAM_NAMES]
        return [sealer.seal(each) for each in users]

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
            "ssl.truststore.location": str(self.authorities),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            "scram.sealing.key.location": str(self.sealing_keys),
            "metrics.http.ssl.keystore.location": str(self._keystore(node)),
            "metrics.http.token.location": str(self.metrics_token),
        }

    def _keystore(self, node: int) -> Path:
        return self.folder / f"node-{node}-keystore.pem"


def _hosts(host: str) -> Sequence[str]:
    return sorted({host, "localhost", "127.0.0.1"})
