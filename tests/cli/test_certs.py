"""`quorate certs`, and the client's commands at a quorum with TLS."""

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quorate import blocking
from quorate.certs import CertificateFolder
from quorate.cli.all_commands import every_command
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.raft import CommittedBatch, NodeId, QuorumConfig, parse_voters
from quorate.runtime import Address, TlsFiles
from tests.cli.command import Processes, Quorate, first_line


@dataclass
class Lengths:
    def apply(self, batch: CommittedBatch) -> list[int]:
        return [len(record) for record in batch.records]


@pytest.mark.slow
def test_a_client_with_a_certificate_is_served_and_others_are_not(quorate: Quorate, tmp_path: Path) -> None:
    certs = str(tmp_path / "certs")
    quorate.output("certs", "create-ca", certs, "--cluster-id", "words")
    printed = quorate.output("certs", "create-node", certs, "--node", "1")
    files = TlsFiles(
        certificate=f"{certs}/node-1.pem", key=f"{certs}/node-1-key.pem", authorities=f"{certs}/ca.pem"
    )
    assert printed == (
        f"node 1 needs {files.certificate}, {files.key} and {files.authorities}\n"
        f"for Kafka's ssl.keystore.location: {certs}/node-1-keystore.pem\n"
    )
    quorate.output("certs", "create-client", certs, "--name", "web")
    assert [each["uri"] for each in quorate.json("certs", "list", certs)] == [
        "quorate://words/ca",
        "quorate://words/client/web",
        "quorate://words/node/1",
    ]
    port, client_port = free_ports(2)
    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="words",
        folder=str(tmp_path / "node"),
        voters=parse_voters(f"1@127.0.0.1:{port}"),
        client_listen=Address("127.0.0.1", client_port),
        tls=files,
    )
    blocking.format_folder(config.folder, cluster_id="words", node_id=NodeId(1))
    with blocking.Quorum.open(config, Lengths()) as quorum:
        quorum.wait_leading()
        call = ("append", "-l", f"127.0.0.1:{client_port}", "--no-sessions", "--timeout-ms", "2000", "three")
        assert quorate.output(*call, "--certificate", f"{certs}/client-web.pem").split()[1:] == ["5"]
        refused = quorate.error(*call, code=ExitCode.UNAVAILABLE)
        assert "no leader was found" in refused
        missing = quorate.error(*call, "--certificate", f"{certs}/client-other.pem", code=ExitCode.USAGE)
        assert "client-other.pem can't be read: No such file" in missing


def test_certificates_that_have_ended_are_listed_and_the_command_fails(
    quorate: Quorate, tmp_path: Path
) -> None:
    folder = CertificateFolder(tmp_path / "certs", now=datetime.now(UTC) - timedelta(days=9))
    folder.create_authority("words")
    folder.create_node(NodeId(1), days=8)
    said = quorate.error("certs", "list", str(tmp_path / "certs"), code=ExitCode.FAILED)
    assert "ended: node-1.pem; make new ones" in said


@pytest.mark.slow
def test_certificates_and_their_authority_are_replaced(quorate: Quorate, tmp_path: Path) -> None:
    certs = str(tmp_path / "certs")
    quorate.output("certs", "create-ca", certs, "--cluster-id", "words")
    quorate.output("certs", "create-node", certs, "--node", "1")
    said = quorate.output("certs", "rotate", certs, "--authority", "--days", "20")
    assert f"{certs}/ca.pem holds the earlier one too" in said
    said = quorate.error("certs", "rotate", certs, "--drop-old", code=ExitCode.FAILED)
    assert "node-1.pem is of an earlier authority; make a new one first" in said
    assert "node-1 needs" in quorate.output("certs", "rotate", certs, "--days", "10")
    assert "holds one authority" in quorate.output("certs", "rotate", certs, "--drop-old")
    issuers = {each["issuer"] for each in quorate.json("certs", "list", certs)}
    assert len(issuers) == 1
    said = quorate.error("certs", "rotate", certs, "--drop-old", "--authority", code=ExitCode.USAGE)
    assert "are two steps" in said


@pytest.mark.slow
def test_a_node_joins_by_a_token(quorate: Quorate, processes: Processes, tmp_path: Path) -> None:
    certs, out, token = str(tmp_path / "certs"), tmp_path / "node", tmp_path / "node-4.token"
    quorate.output("certs", "create-ca", certs, "--cluster-id", "words")
    said = quorate.output(
        "certs", "join-token", certs, "--node", "4", "--host", "four.example", "--out", token
    )
    assert f"{token} has the token of node 4, good until" in said
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text().strip() not in said
    server = processes.start("certs", "sign", certs, "--listen", "127.0.0.1:0")
    (address,) = re.findall(r"at (127\.0\.0\.1:\d+)\n", first_line(server))
    said = quorate.output("certs", "join", token, "--server", address, "--out", out)
    assert said == (
        "node 4 of cluster words has its certificate\n"
        f"node 4 needs {out}/node-4.pem, {out}/node-4-key.pem and {out}/ca.pem\n"
        f"for Kafka's ssl.keystore.location: {out}/node-4-keystore.pem\n"
    )
    said = quorate.error("certs", "join", token, "--server", address, "--out", out, code=ExitCode.FAILED)
    assert f"{address} refuses: the token of node 4 was used already" in said
    ended = processes.end(server, signal.SIGINT)
    assert (ended.code, ended.output) == (0, "")
    assert "signed the certificate of a node that joins" in ended.errors
    assert "a request to join is refused" in ended.errors
    assert sorted(os.listdir(certs)) == ["ca-key.pem", "ca.pem", "node-4.pem", "tokens"]
    listed = quorate.json("certs", "list", certs)
    assert [each["uri"] for each in listed] == ["quorate://words/ca", "quorate://words/node/4"]
    said = quorate.output("certs", "rotate", certs)
    assert f"left out {certs}/node-4.pem, whose key is at the node: make it a token" in said


@pytest.mark.slow
def test_a_node_that_can_not_join_is_told_why(quorate: Quorate, tmp_path: Path) -> None:
    certs, token = str(tmp_path / "certs"), tmp_path / "node-4.token"
    quorate.output("certs", "create-ca", certs, "--cluster-id", "words")
    quorate.output("certs", "join-token", certs, "--node", "4", "--out", token)
    (port,) = free_ports(1)
    to = ("--out", tmp_path / "node")
    said = quorate.error(
        "certs", "join", token, "--server", f"127.0.0.1:{port}", *to, code=ExitCode.UNAVAILABLE
    )
    assert "try again, with the same token" in said
    said = quorate.error("certs", "join", token, "--server", "here", *to, code=ExitCode.USAGE)
    assert "--server: 'here' is not host:port" in said
    token.write_bytes(b"\xff\xfe")
    said = quorate.error("certs", "join", token, "--server", f"127.0.0.1:{port}", *to, code=ExitCode.USAGE)
    assert "is no text; give the file of a join token" in said
    token.write_text("quorate-join-")
    said = quorate.error("certs", "join", token, "--server", f"127.0.0.1:{port}", *to)
    assert "this is no join token, or a part of one" in said
    piped = ["certs", "join", "-", "--server", f"127.0.0.1:{port}", "--out", str(tmp_path / "node")]
    result = CliRunner().invoke(every_command(), piped, input="quorate-join-\n")
    assert (result.exit_code, result.stderr) == (ExitCode.FAILED, said)
    said = quorate.error("certs", "sign", certs, "--listen", "9443", code=ExitCode.USAGE)
    assert "--listen: '9443' is not host:port" in said
    said = quorate.error("certs", "sign", str(tmp_path / "none"), "--listen", f"127.0.0.1:{port}")
    assert "ca-key.pem can't be read" in said


def test_what_can_not_be_made_is_an_error_with_the_remedy(quorate: Quorate, tmp_path: Path) -> None:
    certs = str(tmp_path / "certs")
    said = quorate.error("certs", "create-node", certs, "--node", "1", code=ExitCode.FAILED)
    assert "ca.pem can't be read (No such file or directory); make an authority first" in said
    quorate.output("certs", "create-ca", certs, "--cluster-id", "words")
    said = quorate.error("certs", "create-ca", certs, "--cluster-id", "words", code=ExitCode.FAILED)
    assert "is there already" in said


def test_openssl_verifies_the_chain_strictly(quorate: Quorate, tmp_path: Path, need) -> None:
    folder = CertificateFolder(tmp_path, now=datetime.now(UTC))
    folder.create_authority("words")
    files = folder.create_node(NodeId(1))
    for purpose in ("sslserver", "sslclient"):
        verified = subprocess.run(
            [
                need("openssl"), "verify", "-x509_strict", "-purpose", purpose,
                "-CAfile", files.authorities, files.certificate,
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert verified.returncode == 0, verified.stderr
