"""Certificates of an authority: they name one member, and their files are for their owner."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quorate.certs import CertificateError, CertificateFolder
from quorate.raft.transport.identities import Identity
from quorate.runtime.real.tls_contexts import TlsContexts
from quorate.types import NodeId

NOW = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    made = CertificateFolder(tmp_path / "certs", now=datetime.now(UTC))
    made.create_authority("shop/1 ü")
    return made


def test_a_node_and_a_client_are_named_by_their_certificates(folder: CertificateFolder) -> None:
    node = folder.create_node(NodeId(7))
    client = folder.create_client("web-1")
    assert TlsContexts(node).identities == (Identity("shop/1 ü", NodeId(7)).uri,)
    assert TlsContexts(client).identities == (Identity("shop/1 ü", None, "web-1").uri,)
    assert [each.uri.rpartition("/")[2] for each in folder.certificates()] == ["ca", "web-1", "7"]


def test_keys_are_for_their_owner_alone(folder: CertificateFolder) -> None:
    files = folder.create_node(NodeId(1))
    assert stat.S_IMODE(Path(files.key).stat().st_mode) == 0o600
    keys = [*Path(files.key).parent.glob("*-key.pem")]
    assert len(keys) == 2
    assert {stat.S_IMODE(each.stat().st_mode) for each in keys} == {0o600}
    assert stat.S_IMODE(Path(files.key).parent.stat().st_mode) == 0o700


def test_an_authority_is_made_once(folder: CertificateFolder) -> None:
    with pytest.raises(CertificateError, match=r"ca-key\.pem is there already; choose another folder"):
        folder.create_authority("shop")
    folder.create_node(NodeId(1))
    folder.create_node(NodeId(1))


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 65, "ü\n"])
def test_a_clients_name_is_a_name(folder: CertificateFolder, name: str) -> None:
    with pytest.raises(CertificateError, match="client name"):
        folder.create_client(name)


def test_what_is_missing_is_named(tmp_path: Path, folder: CertificateFolder) -> None:
    with pytest.raises(CertificateError, match="the cluster id is empty"):
        CertificateFolder(tmp_path / "other", now=NOW).create_authority("")
    with pytest.raises(CertificateError, match=r"ca\.pem can't be read .*; make an authority first"):
        CertificateFolder(tmp_path / "other", now=NOW).create_node(NodeId(1))
    with pytest.raises(CertificateError, match="good for 0 days; choose 1 to 36500"):
        folder.create_node(NodeId(1), days=0)
    with pytest.raises(CertificateError, match="the node id is -1"):
        folder.create_node(NodeId(-1))
    (tmp_path / "certs" / "ca-key.pem").unlink()
    with pytest.raises(CertificateError, match="certificates are made where the authority's key is"):
        folder.create_node(NodeId(1))
    (tmp_path / "certs" / "ca.pem").write_text("no certificate")
    with pytest.raises(CertificateError, match="no certificate in the form PEM"):
        folder.certificates()


def test_a_certificate_ends_when_it_says(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path / "certs", now=NOW)
    folder.create_authority("shop", days=10)
    folder.create_node(NodeId(1), days=3)
    ends = {Path(each.path).name: each.not_after for each in folder.certificates()}
    assert ends == {"ca.pem": NOW + timedelta(days=10), "node-1.pem": NOW + timedelta(days=3)}
