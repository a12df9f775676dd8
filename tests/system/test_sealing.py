from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.system.sealing import Sealer, SealingSecrets, Signer, mark_of

OLD, NEW = b"the old secret" * 3, b"the new secret" * 3


@given(plain=st.binary(), bound_to=st.text())
def test_what_was_sealed_opens_for_what_it_is_bound_to(plain: bytes, bound_to: str) -> None:
    sealer = Sealer(SealingSecrets.of_this_process(), "test")
    sealed = sealer.seal(plain, bound_to)
    assert sealed.isascii()
    assert sealer.open(sealed, bound_to) == plain
    assert sealer.open(sealed, f"{bound_to}x") is None


@given(at=st.integers(min_value=0), other=st.characters(codec="utf-8"))
def test_no_other_spelling_opens(at: int, other: str) -> None:
    sealer = Sealer(SealingSecrets((OLD,)), "test")
    sealed = sealer.seal(b"plain", "x")
    at %= len(sealed)
    changed = sealed[:at] + other + sealed[at + 1 :]
    assert sealer.open(changed, "x") == (b"plain" if changed == sealed else None)
    assert sealer.open(sealed[:at], "x") is None
    assert sealer.open(sealed + other, "x") is None


def test_the_first_secret_seals_and_all_open() -> None:
    old, both = (Sealer(SealingSecrets(one), "test") for one in ((OLD,), (NEW, OLD)))
    new = Sealer(SealingSecrets((NEW,)), "test")
    assert both.open(old.seal(b"kept", ""), "") == b"kept"
    assert new.open(both.seal(b"kept", ""), "") == b"kept"
    assert new.open(old.seal(b"kept", ""), "") is None


def test_purposes_and_realms_do_not_open_each_others_texts() -> None:
    sealed = Sealer(SealingSecrets((OLD,), "here"), "test").seal(b"plain", "")
    assert Sealer(SealingSecrets((OLD,), "here"), "test").open(sealed, "") == b"plain"
    assert Sealer(SealingSecrets((OLD,), "here"), "other").open(sealed, "") is None
    assert Sealer(SealingSecrets((OLD,), "there"), "test").open(sealed, "") is None


def test_secrets_are_not_shown() -> None:
    assert "secret'" not in repr(SealingSecrets((OLD,)))
    assert str(OLD) not in repr(SealingSecrets((OLD,)))


def test_the_same_text_is_sealed_differently_each_time() -> None:
    sealer = Sealer(SealingSecrets.of_this_process(), "test")
    assert len({mark_of(sealer.seal(b"same", "")) for _ in range(100)}) == 100


@given(plain=st.binary(), bound_to=st.text(), other=st.text())
def test_what_was_signed_is_read_for_what_it_is_bound_to(
    plain: bytes, bound_to: str, other: str
) -> None:
    signer = Signer(SealingSecrets.of_this_process(), "test")
    signed = signer.sign(plain, bound_to)
    assert signed.isascii()
    assert signer.read(signed, bound_to) == plain
    assert signer.read(signed, other) == (plain if other == bound_to else None)
    assert Signer(SealingSecrets.of_this_process(), "test").read(signed, bound_to) is None


@given(at=st.integers(min_value=0), other=st.characters(codec="utf-8"))
def test_no_other_spelling_is_read(at: int, other: str) -> None:
    signer = Signer(SealingSecrets((OLD,)), "test")
    signed = signer.sign(b"plain", "x")
    at %= len(signed)
    changed = signed[:at] + other + signed[at + 1 :]
    assert signer.read(changed, "x") == (b"plain" if changed == signed else None)
    assert signer.read(signed[:at], "x") is None
    assert signer.read(signed + other, "x") is None


def test_what_a_text_is_bound_to_is_told_from_what_it_says() -> None:
    """Bytes that move from one to the other change the signature."""
    signer = Signer(SealingSecrets((OLD,)), "test")
    signed = signer.sign(b"plain", "x")
    assert signer.read(signed, "") is None
    moved = signer.sign(b"", "x" + "plain")
    assert signer.read(moved, "x") is None


def test_the_first_secret_signs_and_all_are_tried() -> None:
    old, both, new = (Signer(SealingSecrets(one), "test") for one in ((OLD,), (NEW, OLD), (NEW,)))
    assert both.read(old.sign(b"kept", ""), "") == b"kept"
    assert new.read(both.sign(b"kept", ""), "") == b"kept"
    assert new.read(old.sign(b"kept", ""), "") is None


def test_signed_texts_are_read_for_their_purpose_in_their_realm_and_are_no_sealed_ones() -> None:
    here = SealingSecrets((OLD,), "here")
    signed = Signer(here, "test").sign(b"plain", "")
    assert Signer(here, "test").read(signed, "") == b"plain"
    assert Signer(here, "other").read(signed, "") is None
    assert Signer(SealingSecrets((OLD,), "there"), "test").read(signed, "") is None
    assert Sealer(here, "test").open(signed, "") is None
    assert Signer(here, "test").read(Sealer(here, "test").seal(b"plain", ""), "") is None


def test_no_two_signed_texts_are_the_same() -> None:
    signer = Signer(SealingSecrets.of_this_process(), "test")
    assert len({signer.sign(b"same", "") for _ in range(100)}) == 100
