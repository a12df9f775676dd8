"""Sealed texts: what a client carries for the hub and can neither read, forge nor change.

AES-256-GCM. Each text has a key of its own, derived from a secret, the purpose and random bytes, so
that secrets which live for years and are shared by several processes seal any number of texts.
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


class Sealer:
    """Seals and opens texts for one purpose; what is sealed for another purpose does not open."""

    def __init__(self, sealed_with: SealingSecrets, purpose: str) -> None:
        about = f"roots-hub 1 {purpose}\n{sealed_with.realm}".encode()
        self._keys = tuple(_derived(secret, about) for secret in sealed_with.values)

    def seal(self, plain: bytes, bound_to: str) -> str:
        """Return `plain` sealed, as base64url; it opens only with the same `bound_to`."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - slow to import

        salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
        cipher = AESGCM(_derived(self._keys[0], salt))
        sealed = cipher.encrypt(nonce, plain, _encoded(bound_to))
        return base64.urlsafe_b64encode(salt + nonce + sealed).decode().rstrip("=")

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


def raw_of(text: str) -> bytes | None:
    """Return the bytes of a sealed text; None for any but the one canonical spelling."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(raw) < _OVERHEAD or base64.urlsafe_b64encode(raw).decode().rstrip("=") != text:
        return None
    return raw


def mark_of(sealed: str) -> str:
    """Return a short text by which an opened text is told from all others: its random bytes."""
    return sealed[:_MARK]


def _derived(key: bytes, about: bytes) -> bytes:
    return hmac.new(key, about, hashlib.sha256).digest()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
