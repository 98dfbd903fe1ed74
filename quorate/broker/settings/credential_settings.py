"""The settings of users' keys in the metadata."""

from dataclasses import dataclass

from quorate.broker.settings.config_key import flag_key, text_key
from quorate.broker.settings.setting import setting


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSettings:
    """How the credentials of users get into the metadata, and how they are kept there."""

    sealing_key: str = setting(text_key("scram.sealing.key.location", "",
        "The file with the keys that seal users' credentials in the metadata log, the same on every broker "
        "and controller: a key a line in base64, as `quorate users create-key` makes it. The first seals, "
        "all open. Only its owner may read it. It is read again when it changes. Empty: who can read the "
        "log of a node can pose as a user.", ours=True))
    over_plaintext: bool = setting(flag_key("scram.over.plaintext.enable", False,
        "true: passwords of users may be set through a listener without encryption from other machines. "
        "What is sent is as good as the password, and can be read on its way.", ours=True))
# fmt: on
