"""What users' passwords are kept as is hidden wherever metadata is shown."""

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ScramMechanism, UserScramCredential
from quorate.broker.metadata.record_codec import decode, encode
from quorate.cli.images.image_changes import image_changes
from quorate.cli.images.image_tree import image_tree, plain_tree
from quorate.history import Entry, record_json
from quorate.spark_source.columns import plain
from quorate.types import SecretBytes

SECRETS = {"salt": b"first secret", "stored_key": b"second secret", "server_key": b"third secret"}


def password(name: str = "a/b", **fields: bytes) -> UserScramCredential:
    secrets = {key: SecretBytes(value) for key, value in (SECRETS | fields).items()}
    made = UserScramCredential(name=name, mechanism=ScramMechanism.SCRAM_SHA_256, iterations=4096, **secrets)
    decoded = decode(encode(made))
    assert isinstance(decoded, UserScramCredential)
    return decoded


def image_with(*records: UserScramCredential) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(records):
        image.apply(record, offset=offset, epoch=1)
    return image


HIDDEN = {"salt": "[hidden]", "storedKey": "[hidden]", "serverKey": "[hidden]", "iterations": 4096}


def test_the_tree_of_an_image_shows_that_there_is_a_password_and_no_more() -> None:
    tree = plain_tree(image_tree(image_with(password()), {}))
    assert isinstance(tree, dict)
    assert tree["scram"] == {"a%2Fb": {"SCRAM_SHA_256": HIDDEN}}


def test_another_password_is_a_change_although_all_of_it_is_hidden() -> None:
    before, after = (
        image_with(password(), password("same")),
        image_with(password(salt=b"x"), password("same")),
    )
    (change,) = image_changes(before, after)
    assert (change.path, change.before, change.after) == ("/scram/a%2Fb/SCRAM_SHA_256", HIDDEN, HIDDEN)
    (change,) = image_changes(MetadataImage(), image_with(password()))
    assert (change.before, change.after) == (None, HIDDEN)


def test_neither_a_repr_nor_json_nor_a_row_of_spark_has_the_bytes() -> None:
    record = password()
    entry = Entry(1, 1, 1, 1, False, "UserScramCredential", 0, record, encode(record))
    for shown in (repr(record), str(record), record_json(entry), plain(record), f"{record.salt}"):
        assert "secret" not in str(shown)
        assert b"secret".hex() not in str(shown)
        assert "[hidden]" in str(shown)
