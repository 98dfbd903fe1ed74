"""The TLS files that Kafka's `ssl.*` keys name, with their forms and passwords."""

from collections.abc import Callable

from quorate.runtime import KeyStoreForm, TlsFiles


class KeyStoreError(ValueError):
    """Keys don't fit together. The text has no secret."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def tls_files(get: Callable[[str], str]) -> TlsFiles:
    """Return the files. `get`: returns the value of a key, empty if it is not set. Raises `KeyStoreError`."""
    keystore, truststore = get("ssl.keystore.location"), get("ssl.truststore.location")
    form = KeyStoreForm(get("ssl.keystore.type") or "PEM")
    trusted = KeyStoreForm(get("ssl.truststore.type") or "PEM")
    password, key_password = get("ssl.keystore.password"), get("ssl.key.password")
    # As in Kafka (KIP-651): a file of PEM has no password, its key may have one.
    for key, given, is_pem in (
        ("ssl.keystore.password", password, form is KeyStoreForm.PEM),
        ("ssl.truststore.password", get("ssl.truststore.password"), trusted is KeyStoreForm.PEM),
    ):
        if given and is_pem:
            raise KeyStoreError(
                key, "a file of the form PEM has no password; its key may have one, ssl.key.password"
            )
    if form is KeyStoreForm.PKCS12 and key_password not in ("", password):
        raise KeyStoreError(
            "ssl.key.password",
            "in PKCS12 it is that of ssl.keystore.password; leave it out",
        )
    return TlsFiles(
        certificate=keystore,
        key=keystore,
        authorities=truststore,
        key_form=form,
        key_password=password if form is KeyStoreForm.PKCS12 else key_password,
        authorities_form=trusted,
        authorities_password=get("ssl.truststore.password"),
    )
