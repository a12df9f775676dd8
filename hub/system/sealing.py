"""Sealed and signed texts: what a client carries for the hub and can neither forge nor change.

Sealed ones it cannot read either: AES-256-GCM. Each has a key of its own, derived from a secret,
the purpose and random bytes, so that secrets which live for years and are shared by several
processes seal any number of texts. Signed ones (HMAC-SHA256) say what the client has told itself,
and need no library that takes long to import.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from typing import Final

from msgspec import Struct

_SALT, _NONCE, _TAG = 16, 12, 16
_OVERHEAD: Final = _SALT + _NONCE + _TAG
_SIGNATURE: Final = hashlib.sha256().digest_size
_MARK: Final = 22
"""Characters of base64 that have more than the random bytes of `_SALT`."""


class SealingSecrets(Struct, frozen=True):
    """Secrets of the hub: the first one seals, all of them open.

    `realm` keeps hubs apart that have the same secrets and are not to open each other's texts.
    """

    values: tuple[bytes, ...]
    realm: str = ""

    def __repr__(self) -> str:
        return f"SealingSecrets({len(self.values)} secrets, realm={self.realm!r})"

    @classmethod
    def of_this_process(cls) -> SealingSecrets:
        """Return a random secret that nobody else has: nothing outlives this process."""
        return cls((secrets.token_bytes(32),))

    def keys_for(self, purpose: str) -> tuple[bytes, ...]:
        """Return the keys of texts for one purpose, that of the first secret first."""
        about = f"roots-hub 1 {purpose}\n{self.realm}".encode()
        return tuple(_derived(secret, about) for secret in self.values)


class Sealer:
    """Seals and opens texts for one purpose; what is sealed for another purpose does not open."""

    def __init__(self, sealed_with: SealingSecrets, purpose: str) -> None:
        self._keys = sealed_with.keys_for(purpose)

    def seal(self, plain: bytes, bound_to: str) -> str:
        """Return `plain` sealed, as base64url; it opens only with the same `bound_to`."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - slow to import

        salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
        cipher = AESGCM(_derived(self._keys[0], salt))
        return _text(salt + nonce + cipher.encrypt(nonce, plain, _encoded(bound_to)))

    def open(self, text: str, bound_to: str) -> bytes | None:
        """Return what was sealed; None if this text was not sealed so, or was changed."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above

        raw = raw_of(text)
        if raw is None:
            return None
        salt, nonce, sealed = raw[:_SALT], raw[_SALT : _SALT + _NONCE], raw[_SALT + _NONCE :]
        for key in self._keys:
            try:
                return AESGCM(_derived(key, salt)).decrypt(nonce, sealed, _encoded(bound_to))
            except InvalidTag:
                continue
        return None


class Signer:
    """Signs texts for one purpose, and reads them; what was signed for another one is not read."""

    def __init__(self, signed_with: SealingSecrets, purpose: str) -> None:
        self._keys = signed_with.keys_for(purpose)

    def sign(self, plain: bytes, bound_to: str) -> str:
        """Return `plain` signed, as base64url; it is read only with the same `bound_to`.

        Nobody can guess the text, and no two are the same.
        """
        told = os.urandom(_SALT) + plain
        return _text(_signature(self._keys[0], told, bound_to) + told)

    def read(self, text: str, bound_to: str) -> bytes | None:
        """Return what was signed; None if this text was not signed so, or was changed."""
        raw = raw_of(text)
        if raw is None:
            return None
        signature, told = raw[:_SIGNATURE], raw[_SIGNATURE:]
        for key in self._keys:
            if hmac.compare_digest(signature, _signature(key, told, bound_to)):
                return told[_SALT:]
        return None


def _signature(key: bytes, told: bytes, bound_to: str) -> bytes:
    bound = _encoded(bound_to)
    return _derived(key, len(bound).to_bytes(8, "big") + bound + told)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def raw_of(text: str) -> bytes | None:
    """Return the bytes of such a text; None for any but the one canonical spelling."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(raw) < _OVERHEAD or _text(raw) != text:
        return None
    return raw


def mark_of(sealed: str) -> str:
    """Return a short text by which an opened text is told from all others: its random bytes."""
    return sealed[:_MARK]


def _derived(key: bytes, about: bytes) -> bytes:
    return hmac.new(key, about, hashlib.sha256).digest()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
