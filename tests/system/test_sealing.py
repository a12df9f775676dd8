from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.system.sealing import Sealer, SealingSecrets, mark_of

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
