"""Certificates in files, and when they end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from captured_logs import captured_logs
from hypothesis import given
from hypothesis import strategies as st

from quorate.certs import CertificateFolder
from quorate.runtime import TlsFiles
from quorate.runtime.real import RealNetwork, tls_watch
from quorate.runtime.real.certificate_dates import certificates_in, end_ms_of
from quorate.types import NodeId

NOW = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.parametrize("days", [1, 300, 8579, 8580, 36500])
def test_a_certificate_ends_when_cryptography_says(tmp_path: Path, days: int) -> None:
    """From 2050 on, dates have another form."""
    folder = CertificateFolder(tmp_path / "certs", now=NOW)
    folder.create_authority("c")
    files = folder.create_node(NodeId(1), hosts=["one.example"], days=days)
    (der,) = certificates_in(Path(files.certificate).read_text())
    (view,) = [each for each in folder.certificates() if each.path == files.certificate]
    assert (
        end_ms_of(der) == view.not_after.timestamp() * 1000 == (NOW + timedelta(days=days)).timestamp() * 1000
    )


@given(st.binary(max_size=300))
def test_what_is_no_certificate_has_no_end(data: bytes) -> None:
    assert end_ms_of(data) is None


def test_a_damaged_certificate_costs_no_error(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path / "certs", now=NOW)
    (der,) = certificates_in(folder.create_authority("c").read_text())
    for size in range(len(der)):
        assert end_ms_of(der[:size]) is None
        changed = bytearray(der)
        changed[size] ^= 0xFF
        end_ms_of(bytes(changed))


def made(tmp_path: Path, *, days: int) -> TlsFiles:
    folder = CertificateFolder(tmp_path / "certs", now=datetime.now(UTC))
    folder.create_authority("c", days=days + 100)
    return folder.create_node(NodeId(1), days=days)


def test_a_network_tells_of_its_own_certificates_and_of_authorities(tmp_path: Path) -> None:
    files = made(tmp_path, days=20)
    network = RealNetwork().secured(files)
    now_ms = datetime.now(UTC).timestamp() * 1000
    left = {(each.file, each.position): (each.end_ms - now_ms) / 86_400_000 for each in network.certificates}
    assert left == {
        (files.certificate, 1): pytest.approx(20, abs=0.01),
        (files.authorities, 1): pytest.approx(120, abs=0.01),
    }
    assert not RealNetwork().certificates


def test_the_log_warns_once_a_day_from_thirty_days_on(tmp_path: Path) -> None:
    files = made(tmp_path, days=40)
    now = datetime.now(UTC).timestamp()
    expiry = tls_watch.ExpiryLog()
    network = RealNetwork().secured(files)
    with captured_logs() as lines:
        for day, said in ((0, 0), (9.9, 0), (10.1, 1), (10.2, 0), (11.2, 1), (39.9, 1), (41, 1), (41.5, 0)):
            lines.clear()
            # Two listeners have the same files.
            for _ in range(2):
                expiry.tell(network.certificates, now_s=now + day * 86400)
            assert len(lines) == said, day
            if said:
                ended = day > 40
                assert lines[0]["event"] == (
                    "a certificate has ended" if ended else "a certificate ends soon"
                )
                assert lines[0]["log_level"] == ("error" if ended else "warning")
                assert lines[0]["file"] == files.certificate
