import hashlib

import pytest

from hub.protocol.http_headers import bearer_in, is_sendable, token_hash


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer s3cret", b"s3cret"),
        ("bearer  s3cret ", b"s3cret"),
        ("Bearer gr\xf6\xdfe", b"gr\xf6\xdfe"),
        ("Bearer ", b""),
        ("Bearer s3cret\xa0", b"s3cret\xa0"),
        ("Bearer \t s3cret\t ", b"s3cret"),
        ("Basic s3cret", None),
        ("s3cret", None),
        ("", None),
        (None, None),
    ],
)
def test_a_bearer_token_is_the_bytes_behind_the_scheme(
    header: str | None, token: bytes | None
) -> None:
    assert bearer_in(header) == token


def test_a_hash_is_that_of_the_bytes_which_come_over_the_wire() -> None:
    assert token_hash("größe") == hashlib.sha256("größe".encode()).hexdigest()
    assert token_hash(b"\xff".decode("utf-8", "surrogateescape")) == (
        hashlib.sha256(b"\xff").hexdigest()
    )


@pytest.mark.parametrize("token", ["s", "s3cret", "two words", "a\tb", "größe", "s3cret\xa0"])
def test_what_comes_as_it_is_can_be_sent(token: str) -> None:
    assert is_sendable(token)
    assert bearer_in(f"Bearer {token}") == token.encode("latin-1")


@pytest.mark.parametrize("token", ["", " ", " s3cret", "s3cret\t", "s3cret\r", "a\nb", "a\x7fb"])
def test_what_no_header_can_bring_cannot_be_sent(token: str) -> None:
    assert not is_sendable(token)
