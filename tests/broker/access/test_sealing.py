"""Users' keys are sealed by a key that is not in the log, and open only where they belong."""

import base64
import hashlib
import hmac
import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealing_keys import PATH, disk_with, sealer_with, write_keys

from quorate.broker.access.sealing import (
    KEY_BYTES,
    SealBrokenError,
    Sealer,
    SealingFileError,
    SealingKey,
    SealingKeys,
    UnknownSealingKeyError,
    draw_key_line,
    prepend_key,
)
from quorate.broker.metadata.metadata_records import ScramMechanism, UserScramCredential
from quorate.runtime import Entropy
from quorate.types import SecretBytes

SECRET = bytes(range(KEY_BYTES))
LINE = base64.b64encode(SECRET).decode()
OTHER = base64.b64encode(bytes(KEY_BYTES)).decode()
contexts = st.lists(st.binary(max_size=20), max_size=4)


def credential(**fields: object) -> UserScramCredential:
    made = UserScramCredential(
        name="ann",
        mechanism=ScramMechanism.SCRAM_SHA_512,
        salt=SecretBytes(b"salt of ann"),
        stored_key=SecretBytes(b"stored key" * 6 + b"----"),
        server_key=SecretBytes(b"server key" * 6 + b"----"),
        iterations=4096,
    )
    return replace(made, **fields)


def test_a_sealed_key_has_known_bytes() -> None:
    """Computed here from the description alone."""

    def derived(use: bytes) -> bytes:
        return hmac.digest(SECRET, b"quorate users' keys: " + use, "sha256")

    plaintext = bytes(range(64))
    message = b"".join(len(part).to_bytes(8, "big") + part for part in (b"stored key", b"ann", plaintext))
    tag = hmac.digest(derived(b"tag"), message, "sha256")
    stream = b"".join(
        hmac.digest(derived(b"encryption"), tag + bytes((0, 0, 0, n)), "sha256") for n in (0, 1)
    )
    expected = b"\x01" + tag + bytes(a ^ b for a, b in zip(plaintext, stream, strict=True))
    key = SealingKey(SECRET)
    assert key.seal(plaintext, (b"stored key", b"ann")) == expected
    assert hashlib.sha256(expected).hexdigest() == KNOWN
    assert key.id == KNOWN_ID


KNOWN = "8063b795518c39bb04d70bde4f300cf2fb07ea6fab988053dab517496c09f709"
KNOWN_ID = "86937bf69b5711a9"


@given(st.binary(max_size=100), contexts)
def test_what_is_sealed_opens_in_its_context(plaintext: bytes, context: list[bytes]) -> None:
    key = SealingKey(SECRET)
    sealed = key.seal(plaintext, context)
    assert key.open(sealed, context) == plaintext
    assert len(sealed) == len(plaintext) + 33


@given(st.binary(min_size=1, max_size=100), contexts, contexts)
def test_it_opens_in_no_other_context(plaintext: bytes, context: list[bytes], other: list[bytes]) -> None:
    key = SealingKey(SECRET)
    if context != other:
        with pytest.raises(SealBrokenError):
            key.open(key.seal(plaintext, context), other)
        # Nor where a part begins elsewhere.
        joined = [b"".join(context)]
        if joined != context:
            with pytest.raises(SealBrokenError):
                key.open(key.seal(plaintext, context), joined)


@given(st.binary(min_size=1, max_size=70), st.data())
def test_no_bit_may_change_and_no_byte_may_be_missing(plaintext: bytes, data: st.DataObject) -> None:
    key = SealingKey(SECRET)
    sealed = bytearray(key.seal(plaintext, (b"ann",)))
    cut = data.draw(st.integers(0, len(sealed) - 1))
    with pytest.raises(SealBrokenError):
        key.open(bytes(sealed[:cut]), (b"ann",))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(SealBrokenError):
        key.open(bytes(sealed), (b"ann",))
    with pytest.raises(SealBrokenError):
        SealingKey(bytes(KEY_BYTES)).open(key.seal(plaintext, (b"ann",)), (b"ann",))


def test_a_credential_is_sealed_whole_and_opens_as_it_was() -> None:
    sealer = sealer_with(LINE)
    sealed = sealer.seal(credential())
    assert sealed.sealed_by == sealer.key_id == SealingKey(SECRET).id
    assert b"stored" not in bytes(sealed.stored_key)
    assert b"server" not in bytes(sealed.server_key)
    assert sealer.open(sealed) == credential()
    assert sealer.open(credential()) == credential(), "one that was not sealed"


@pytest.mark.bug("CVE-2021-3127")
@pytest.mark.parametrize(
    "changed",
    [
        {"name": "bob"},
        {"mechanism": ScramMechanism.SCRAM_SHA_256},
        {"salt": SecretBytes(b"salt of bob")},
        {"iterations": 4097},
    ],
)
def test_a_sealed_credential_is_of_no_use_to_another_user(changed: dict[str, object]) -> None:
    sealer = sealer_with(LINE)
    with pytest.raises(SealBrokenError):
        sealer.open(replace(sealer.seal(credential()), **changed))


def test_the_two_keys_of_a_credential_can_not_change_places() -> None:
    sealer = sealer_with(LINE)
    sealed = sealer.seal(credential(server_key=credential().stored_key))
    assert sealed.stored_key != sealed.server_key
    swapped = replace(sealed, stored_key=sealed.server_key, server_key=sealed.stored_key)
    with pytest.raises(SealBrokenError):
        sealer.open(swapped)


def test_the_first_key_seals_and_every_key_opens() -> None:
    old = sealer_with(LINE).seal(credential())
    both = sealer_with(f"# keys of the shop\n{OTHER}\n\n{LINE}\n")
    assert both.open(old) == credential()
    assert both.seal(credential()).sealed_by != old.sealed_by
    with pytest.raises(UnknownSealingKeyError, match=old.sealed_by):
        sealer_with(OTHER).open(old)


def test_a_key_that_comes_into_the_file_later_is_found_when_it_is_needed() -> None:
    disk = disk_with(LINE)
    sealer = Sealer(disk, PATH, now=itertools.count(60.0, 60.0).__next__)
    sealed = sealer_with(OTHER).seal(credential())
    with pytest.raises(UnknownSealingKeyError):
        sealer.open(sealed)
    write_keys(disk, f"{LINE}\n{OTHER}\n")
    assert sealer.open(sealed) == credential()
    write_keys(disk, "no key")
    sealer.read_again()
    assert sealer.open(sealed) == credential(), "a file that can't be used changes nothing"


def test_the_file_is_not_read_for_each_login_by_an_unknown_key() -> None:
    disk = disk_with(LINE)
    sealer = Sealer(disk, PATH, now=lambda: 60.0)
    sealed = sealer_with(OTHER).seal(credential())
    for text in (LINE, f"{LINE}\n{OTHER}"):
        write_keys(disk, text)
        with pytest.raises(UnknownSealingKeyError):
            sealer.open(sealed)


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "short", base64.b64encode(bytes(31)).decode(), LINE + "!"]
)
def test_a_file_without_keys_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SealingFileError, match="create-key") as refusal:
        sealer_with(text)
    assert LINE not in str(refusal.value)


@pytest.mark.bug("CVE-2020-15113")
def test_a_file_that_others_may_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_with(LINE)
    monkeypatch.setattr(disk, "mode", lambda path: 0o640)
    with pytest.raises(SealingFileError, match=r"0640.*chmod 600"):
        Sealer(disk, PATH)


def test_no_file_is_refused() -> None:
    with pytest.raises(SealingFileError, match="can't be read"):
        Sealer(disk_with(LINE), "/secrets/none")


async def test_a_new_key_comes_in_front_of_the_others() -> None:
    disk, entropy = disk_with(f"{LINE}\n"), Entropy(random.Random(3))
    first = await prepend_key(disk, PATH, entropy)
    assert [each.id for each in first.keys][1:] == [SealingKey(SECRET).id]
    second = await prepend_key(disk, PATH, entropy)
    assert [each.id for each in second.keys[1:]] == [each.id for each in first.keys]
    made = await prepend_key(disk, "/secrets/new", entropy)
    assert made.keys == (made.first,)


def test_a_key_does_not_show_itself() -> None:
    line = draw_key_line(Entropy(random.Random(3)))
    shown = repr(SealingKeys.parse(line))
    assert line.strip() not in shown
    assert base64.b64decode(line).hex() not in shown


def test_all_nodes_with_the_same_first_key_make_the_same_fake_salts() -> None:
    assert sealer_with(LINE).fake_salt_secret == sealer_with(f"{LINE}\n{OTHER}").fake_salt_secret
    assert sealer_with(LINE).fake_salt_secret != sealer_with(OTHER).fake_salt_secret
