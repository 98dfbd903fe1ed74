"""What is learnt of a cluster that answers in part."""

from collections.abc import Sequence

import pytest

from quorate.health import observe
from quorate.health.observation import BrokerFacts, CertificateFacts, MetadataFacts
from quorate.runtime import (
    MEMBERS,
    Address,
    CertificateEnd,
    ConnectRefusedError,
    Listener,
    Network,
    NetworkError,
    Stream,
    TlsError,
    TlsFiles,
    TlsTerms,
)

NOW_MS = 1_800_000_000_000
EXPIRED = "h:1: its certificate is not accepted: certificate has expired"


class Unreachable:
    """A network (`quorate.runtime.Network`) on which each connection fails."""

    identities = None
    certificates: Sequence[CertificateEnd] = (CertificateEnd(file="ca.pem", position=2, end_ms=NOW_MS),)

    def __init__(self, error: NetworkError) -> None:
        self._error = error

    async def connect(self, address: Address) -> Stream:
        raise self._error

    async def listen(self, address: Address) -> Listener:
        raise self._error

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> Network:
        return self


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (TlsError(EXPIRED), EXPIRED),
        (ConnectRefusedError("h:1: refused"), "nobody answers at h:1"),
    ],
)
async def test_a_broker_whose_certificate_is_not_accepted_says_why_it_is_not_known(
    error: NetworkError, problem: str
) -> None:
    async def read() -> MetadataFacts:
        return MetadataFacts(offset=9, brokers={1: BrokerFacts(broker=1, address="h:1")}, partitions={})

    observation = await observe(
        Unreachable(error),
        controllers=[Address("h", 9)],
        read_metadata=read,
        metadata_source="the log",
        clock_ms=lambda: NOW_MS,
    )
    assert observation.reports[1].problem == problem
    assert observation.certificates == (
        CertificateFacts(where="ca.pem", what="certificate 2 there", end_ms=NOW_MS),
    )
