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


@pytest.mark.bug("CVE-2020-15113")
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, folder: CertificateFolder) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o775)
    made = CertificateFolder(loose, now=NOW)
    with pytest.raises(CertificateError, match=r"loose \(its mode is 0775\); chmod go-w it"):
        made.create_authority("shop")
    assert [*loose.iterdir()] == []
    loose.chmod(0o755)
    made.create_authority("shop")
    (tmp_path / "certs").chmod(0o702)
    for make in (lambda: folder.create_client("web"), folder.add_authority):
        with pytest.raises(CertificateError, match=r"its mode is 0702"):
            make()


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


def subjects_of(folder: CertificateFolder) -> dict[str, set[str]]:
    """The issuers of the certificates in each file."""
    found: dict[str, set[str]] = {}
    for each in folder.certificates():
        found.setdefault(Path(each.path).name, set()).add(each.issuer)
    return found


def test_an_authority_is_replaced_in_three_steps(folder: CertificateFolder) -> None:
    node = folder.create_node(NodeId(1), hosts=["localhost", "127.0.0.1", "::1"])
    folder.create_client("web")
    first = subjects_of(folder)
    keys = {path: path.read_bytes() for path in Path(node.key).parent.glob("*key*.pem")}
    folder.add_authority()
    assert len(subjects_of(folder)["ca.pem"]) == 2
    assert folder.cluster_id == "shop/1 ü"
    TlsContexts(node)
    with pytest.raises(CertificateError, match="holds 2 authorities already; drop the earlier one first"):
        folder.add_authority()
    with pytest.raises(CertificateError, match=r"client-web\.pem is of an earlier authority"):
        folder.drop_earlier_authorities()
    assert [Path(each.certificate).name for each in folder.renew()] == ["client-web.pem", "node-1.pem"]
    assert TlsContexts(node).identities == (Identity("shop/1 ü", NodeId(1)).uri,)
    assert hosts_of(Path(node.certificate)) == {"localhost", "127.0.0.1", "::1"}
    folder.drop_earlier_authorities()
    last = subjects_of(folder)
    assert last["node-1.pem"] == last["client-web.pem"] == last["ca.pem"]
    assert not last["ca.pem"] & first["ca.pem"]
    TlsContexts(node)
    for path, content in keys.items():
        assert path.read_bytes() != content, path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def hosts_of(path: Path) -> set[str]:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(each.value) for each in names if not isinstance(each, x509.UniformResourceIdentifier)}


def test_the_key_tells_which_authority_signs(folder: CertificateFolder, tmp_path: Path) -> None:
    """As after a crash between the two files of a new authority."""
    key = tmp_path / "certs" / "ca-key.pem"
    earlier = key.read_bytes()
    folder.add_authority()
    key.write_bytes(earlier)
    TlsContexts(folder.create_node(NodeId(1)))
    key.write_bytes((tmp_path / "certs" / "node-1-key.pem").read_bytes())
    with pytest.raises(CertificateError, match=r"no certificate in .*ca\.pem is of the key"):
        folder.create_node(NodeId(1))


def test_there_is_something_to_renew(folder: CertificateFolder, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="has no certificates of nodes or clients"):
        folder.renew()
    (tmp_path / "certs" / "client-odd.pem").write_bytes((tmp_path / "certs" / "ca.pem").read_bytes())
    with pytest.raises(CertificateError, match=r"client-odd\.pem names no member of a cluster"):
        folder.renew()
