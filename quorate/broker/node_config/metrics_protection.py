"""The protection of the metrics endpoint."""

import re
from typing import Final

from quorate.broker.node_config.properties_file import PropertyValues
from quorate.broker.settings.node_keys import (
    METRICS_HOST,
    METRICS_PAGE_PEERS,
    METRICS_TRUSTSTORE,
    MetricsSettings,
)
from quorate.broker.settings.setting import read
from quorate.broker.wire.connection_quotas import is_loopback
from quorate.runtime import ClientAuth, TlsFiles, TlsTerms

_ORIGIN: Final = re.compile(r"https?://([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")
"""Scheme, host and port, as a header of HTTP has them: nothing else may get into that."""


def is_for_this_machine(settings: MetricsSettings) -> bool:
    """Return whether only this machine reaches the endpoint."""
    return settings.host == "localhost" or is_loopback(f"{settings.host}:0")


def check_metrics(values: PropertyValues) -> None:
    """Check the keys of the endpoint together. Raises `ServerConfigError` if whoever reaches it could read
    it, and nobody has allowed that."""
    asked = read(MetricsSettings, values.all)
    if asked.truststore and not asked.keystore:
        raise values.error(
            METRICS_TRUSTSTORE, "the endpoint has no TLS; set metrics.http.ssl.keystore.location"
        )
    for peer in asked.page_peers:
        if _ORIGIN.fullmatch(peer) is None:
            raise values.error(
                METRICS_PAGE_PEERS,
                f"{peer!r} is no place of a page; write http://HOST:PORT or https://HOST:PORT, no path",
            )
    if asked.port < 0 or asked.open or is_for_this_machine(asked):
        return
    if not asked.keystore or not (asked.token_file or asked.truststore):
        raise values.error(
            METRICS_HOST,
            f"{asked.host or 'every address'} is reached from other machines, and the endpoint asks nobody "
            "who they are; set metrics.http.ssl.keystore.location, and metrics.http.token.location or "
            "metrics.http.ssl.truststore.location, or allow it by metrics.http.open=true",
        )


def metrics_tls(settings: MetricsSettings) -> tuple[TlsFiles, TlsTerms] | None:
    """Return the files and the terms of the endpoint; None: it has no TLS."""
    if not settings.keystore:
        return None
    client_auth = ClientAuth.REQUIRED if settings.truststore else ClientAuth.NONE
    return (
        TlsFiles(certificate=settings.keystore, key=settings.keystore, authorities=settings.truststore),
        TlsTerms(client_auth=client_auth, before_1_3=True, strict=False),
    )
