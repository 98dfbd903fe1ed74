"""The secrets of a protected cluster, and the search for them wherever others may look."""

import base64
import hashlib
import hmac

from quorate.broker.access.sealing import Sealer
from quorate.broker.metadata.metadata_records import UserScramCredential
from quorate.cli.node.local_cluster import LocalCluster
from quorate.history import FolderLog, entries_of
from quorate.runtime.real import SyncStrategy, real_runtime

PASSWORD = "a password that is planted"
"""That of the users `planted` and `removed`."""


def records(cluster: LocalCluster) -> list[UserScramCredential]:
    log = FolderLog(path=str(cluster.node(1).folder / "data"), read_uncommitted=True)
    end = log.extent().end_offset
    return [
        entry.record
        for batch in log.batches(0, end)
        for entry in entries_of(batch, start=0, end=end)
        if isinstance(entry.record, UserScramCredential)
    ]


def secrets_of(cluster: LocalCluster) -> dict[str, bytes]:
    """Every secret, made of the password anew where it can be."""
    found = {"password": PASSWORD.encode(), "admin's password": cluster.secrets.password.encode()}
    for line in cluster.secrets.sealing_keys.read_text().splitlines():
        found["sealing key"] = base64.b64decode(line)
    for path in cluster.secrets.folder.glob("*key*.pem"):
        lines = path.read_text().splitlines()
        begin = next(at for at, line in enumerate(lines) if "PRIVATE KEY" in line)
        found[path.name] = lines[begin + 1].encode()
    opener = Sealer(real_runtime(sync=SyncStrategy.INLINE).disk, str(cluster.secrets.sealing_keys))
    for number, record in enumerate(records(cluster)):
        password = PASSWORD if record.name in ("planted", "removed") else cluster.secrets.password
        digest = "sha256" if record.mechanism == 1 else "sha512"
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), record.salt, record.iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        stored_key = hashlib.new(digest, client_key).digest()
        assert opener.open(record).stored_key == stored_key, "they are what is looked for"
        found |= {
            f"salted password {number}": salted,
            f"client key {number}": client_key,
            f"stored key {number}": stored_key,
            f"server key {number}": hmac.digest(salted, b"Server Key", digest),
        }
    assert len(found) > 15
    return found


def forms(secret: bytes) -> tuple[bytes, ...]:
    encoded = base64.b64encode(secret)
    return secret, secret.hex().encode(), encoded.rstrip(b"="), repr(secret).encode()[2:-1]


def search(place: str, content: bytes, secrets: dict[str, bytes]) -> None:
    for name, secret in secrets.items():
        assert not any(form in content for form in forms(secret)), f"{name} is in {place}"
