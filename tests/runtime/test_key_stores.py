"""Keystores of the form PKCS12, and keys with passwords: who gets in, what is refused, and where keys lie."""

import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import which

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from quorate.certs import CertificateFolder
from quorate.runtime import Address, KeyStoreForm, TlsFiles, TlsFilesError
from quorate.runtime.real import RealNetwork
from quorate.types import NodeId

PASSWORD, P12 = "of-the-store", KeyStoreForm.PKCS12


@pytest.fixture
def pem(tmp_path: Path) -> TlsFiles:
    folder = CertificateFolder(tmp_path / "certs", now=datetime.now(UTC))
    folder.create_authority("c")
    return folder.create_node(NodeId(1), hosts=["127.0.0.1"])


def private(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    path.chmod(0o600)
    return str(path)


def as_pkcs12(pem: TlsFiles, folder: Path, password: str = PASSWORD) -> TlsFiles:
    key = load_pem_private_key(Path(pem.key).read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(Path(pem.certificate).read_bytes())
    authorities = x509.load_pem_x509_certificates(Path(pem.authorities).read_bytes())
    locked = BestAvailableEncryption(password.encode())
    store = pkcs12.serialize_key_and_certificates(b"node", key, certificate, authorities, locked)
    trusted = pkcs12.serialize_key_and_certificates(None, None, None, authorities, locked)
    path = private(folder / "node.p12", store)
    return TlsFiles(
        certificate=path,
        key=path,
        authorities=private(folder / "ca.p12", trusted),
        key_form=P12,
        key_password=PASSWORD,
        authorities_form=P12,
        authorities_password=PASSWORD,
    )


def with_password(pem: TlsFiles, folder: Path, password: str) -> TlsFiles:
    key = load_pem_private_key(Path(pem.key).read_bytes(), None)
    locked = BestAvailableEncryption(password.encode())
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    return replace(pem, key=private(folder / "locked.pem", content), key_password=PASSWORD)


async def greeted(server: TlsFiles, client: TlsFiles) -> tuple[str, ...] | None:
    """The identities that the server's end sees."""
    listener = await RealNetwork().secured(server).listen(Address("127.0.0.1", 0))
    seen: list[tuple[str, ...] | None] = []

    async def accept() -> None:
        stream = await listener.accept()
        await stream.handshake()
        seen.append(stream.identities)
        stream.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        stream = await RealNetwork().secured(client).connect(listener.address)
        assert await stream.receive_some() == b""
        stream.close()
    listener.close()
    return seen[0]


async def test_a_node_with_pkcs12_and_one_with_pem_know_each_other(pem: TlsFiles, tmp_path: Path) -> None:
    store = as_pkcs12(pem, tmp_path)
    network = RealNetwork().secured(store)
    assert network.identities == RealNetwork().secured(pem).identities
    assert {Path(each.file).name for each in network.certificates} == {"node.p12", "ca.p12"}
    for server, client in ((store, pem), (pem, store), (store, store)):
        assert await greeted(server, client) == network.identities


async def test_a_key_with_a_password_is_opened_by_it(pem: TlsFiles, tmp_path: Path) -> None:
    assert await greeted(with_password(pem, tmp_path, PASSWORD), pem)


def test_a_wrong_password_is_named_and_not_shown(pem: TlsFiles, tmp_path: Path) -> None:
    for files, says in (
        (as_pkcs12(pem, tmp_path, "another one"), "can't be opened: its password is another one"),
        (with_password(pem, tmp_path, "another one"), "can't be opened by its password"),
        (replace(pem, key_form=P12), "not of the form PKCS12; keytool -importkeystore"),
        (replace(pem, authorities_form=P12), "not of the form PKCS12"),
    ):
        with pytest.raises(TlsFilesError, match=says) as raised:
            RealNetwork().secured(files)
        assert PASSWORD not in str(raised.value)
        assert PASSWORD not in repr(files)


def test_a_keystore_that_others_can_read_is_refused(pem: TlsFiles, tmp_path: Path) -> None:
    files = as_pkcs12(pem, tmp_path)
    Path(files.key).chmod(0o640)
    with pytest.raises(TlsFilesError, match="can be read by others"):
        RealNetwork().secured(files)


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_the_opened_key_is_in_no_file_with_a_name_that_stays(
    pem: TlsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_memory_files: bool
) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    modes: list[int] = []
    unlink = os.unlink

    def noted(path: str, **more: int) -> None:
        modes.append(os.stat(path).st_mode & 0o777)
        unlink(path, **more)

    monkeypatch.setattr("tempfile.tempdir", str(aside))
    monkeypatch.setattr(os, "unlink", noted)
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create")
    opened = len(os.listdir("/proc/self/fd"))
    RealNetwork().secured(as_pkcs12(pem, tmp_path))
    assert list(aside.iterdir()) == []
    assert set(modes) == (set() if has_memory_files else {0o600})
    assert len(os.listdir("/proc/self/fd")) == opened


@pytest.mark.slow
def test_a_truststore_and_a_keystore_of_keytool_are_read(pem: TlsFiles, tmp_path: Path) -> None:
    if which("keytool") is None:
        pytest.skip("keytool is not installed (Debian: apt-get install default-jre-headless)")
    trusted, store = tmp_path / "keytool.p12", as_pkcs12(pem, tmp_path)
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", pem.authorities,
         "-keystore", str(trusted), "-storetype", "PKCS12", "-storepass", PASSWORD],
        check=True, capture_output=True,
    )  # fmt: skip
    copied = tmp_path / "copied.p12"
    subprocess.run(
        ["keytool", "-importkeystore", "-srckeystore", store.key, "-destkeystore", str(copied),
         "-deststoretype", "PKCS12", "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD],
        check=True, capture_output=True,
    )  # fmt: skip
    copied.chmod(0o600)
    files = replace(store, certificate=str(copied), key=str(copied), authorities=str(trusted))
    assert RealNetwork().secured(files).identities == RealNetwork().secured(pem).identities
