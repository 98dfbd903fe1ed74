"""The protection of the metrics endpoint."""

from quorate.broker.node_config.page_peers import PagePeer
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
        try:
            PagePeer.parse(peer)
        except ValueError as error:
            raise values.error(METRICS_PAGE_PEERS, str(error)) from None
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
