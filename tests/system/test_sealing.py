from __future__ import annotations

import base64
import hmac
import shutil
import subprocess
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.system.sealing import Sealer, SealingSecrets, Signer, mark_of

OLD, NEW = b"the old secret" * 3, b"the new secret" * 3
Make: TypeAlias = Callable[[bytes, str], str]
Read: TypeAlias = Callable[[str, str], bytes | None]
Kind: TypeAlias = Callable[[SealingSecrets, str], tuple[Make, Read]]


def sealing(sealed_with: SealingSecrets, purpose: str = "test") -> tuple[Make, Read]:
    sealer = Sealer(sealed_with, purpose)
    return sealer.seal, sealer.open


def signing(signed_with: SealingSecrets, purpose: str = "test") -> tuple[Make, Read]:
    signer = Signer(signed_with, purpose)
    return signer.sign, signer.read


both = pytest.mark.parametrize("kind", [sealing, signing])


@both
@given(plain=st.binary(), bound_to=st.text(), other=st.text())
def test_what_was_made_is_read_for_what_it_is_bound_to(
    kind: Kind, plain: bytes, bound_to: str, other: str
) -> None:
    make, read = kind(SealingSecrets.of_this_process(), "test")
    made = make(plain, bound_to)
    assert made.isascii()
    assert read(made, bound_to) == plain
    assert read(made, other) == (plain if other == bound_to else None)
    assert kind(SealingSecrets.of_this_process(), "test")[1](made, bound_to) is None


@both
@given(at=st.integers(min_value=0), other=st.characters(codec="utf-8"))
def test_no_other_spelling_is_read(kind: Kind, at: int, other: str) -> None:
    make, read = kind(SealingSecrets((OLD,)), "test")
    made = make(b"plain", "x")
    at %= len(made)
    changed = made[:at] + other + made[at + 1 :]
    assert read(changed, "x") == (b"plain" if changed == made else None)
    assert read(made[:at], "x") is None
    assert read(made + other, "x") is None


@both
def test_what_a_text_is_bound_to_is_told_from_what_it_says(kind: Kind) -> None:
    """Bytes that move from one to the other make another text of it."""
    make, read = kind(SealingSecrets((OLD,)), "test")
    assert read(make(b"plain", "x"), "") is None
    assert read(make(b"", "x" + "plain"), "x") is None


@both
def test_the_first_secret_makes_texts_and_all_read_them(kind: Kind) -> None:
    old, (make, read), new = (
        kind(SealingSecrets(one), "test") for one in ((OLD,), (NEW, OLD), (NEW,))
    )
    assert read(old[0](b"kept", ""), "") == b"kept"
    assert new[1](make(b"kept", ""), "") == b"kept"
    assert new[1](old[0](b"kept", ""), "") is None


@both
def test_a_text_is_read_for_its_purpose_in_its_realm_alone(kind: Kind) -> None:
    here, there = SealingSecrets((OLD,), "here"), SealingSecrets((OLD,), "there")
    make, read = kind(here, "test")
    made = make(b"plain", "")
    assert read(made, "") == b"plain"
    assert kind(here, "other")[1](made, "") is None
    assert kind(there, "test")[1](made, "") is None


@both
def test_no_two_texts_are_the_same(kind: Kind) -> None:
    make, _ = kind(SealingSecrets.of_this_process(), "test")
    assert len({mark_of(make(b"same", "")) for _ in range(100)}) == 100


@pytest.mark.parametrize(("one", "other"), [(sealing, signing), (signing, sealing)])
def test_a_sealed_text_is_no_signed_one_nor_the_other_way_round(one: Kind, other: Kind) -> None:
    sealed_with = SealingSecrets((OLD,))
    made = one(sealed_with, "test")[0](b"plain", "")
    assert other(sealed_with, "test")[1](made, "") is None


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """Return what OpenSSL says, or else what Python does."""
    openssl = shutil.which("openssl")
    if openssl is None:
        return hmac.digest(key, message, "sha256")
    argv = [openssl, "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key.hex()}", "-binary"]
    return subprocess.run(argv, input=message, capture_output=True, check=True).stdout  # noqa: S603 - ours


def test_a_signature_is_the_hmac_of_what_was_signed_and_what_it_is_bound_to() -> None:
    bound, secrets = "whom it is for", SealingSecrets((NEW, OLD), "here")
    signed = Signer(secrets, "test").sign(b"plain", bound)
    raw = base64.urlsafe_b64decode(signed + "=" * (-len(signed) % 4))
    signature, told = raw[:32], raw[32:]
    assert told[16:] == b"plain"
    key = hmac_sha256(NEW, b"roots-hub 1 test\nhere")
    assert signature == hmac_sha256(key, len(bound).to_bytes(8, "big") + bound.encode() + told)


def test_secrets_are_not_shown() -> None:
    assert "secret'" not in repr(SealingSecrets((OLD,)))
    assert str(OLD) not in repr(SealingSecrets((OLD,)))
