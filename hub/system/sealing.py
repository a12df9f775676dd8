"""Sealed and signed texts: what a client carries for the hub and can neither forge nor change.

Sealed ones it cannot read either: AES-256-GCM. Each has a key of its own, derived from a secret,
the purpose and random bytes, so that secrets which live for years and are shared by several
processes seal any number of texts. Signed ones (HMAC-SHA256) say what the client has told itself,
and need no library that takes long to import.

Ids that must not be taken again until they expire are remembered beyond the process in a file, one
line for each: a digest, which opens nothing to whoever reads it.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from hub.system.atomic_file import replace_file
from hub.system.private_file import append_private, private_directory, read_private

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


MAX_IDS: Final = 65_536
"""How many ids are remembered. Beyond, those that expire first go, and all that expire as early
count as remembered."""
_DIGEST: Final = 32
_ENTRY: Final = re.compile(r"([0-9]{1,12}) ([0-9a-f]{32}|-)")
_LINE: Final = 64
"""Bytes of a line at most: the time, a blank, the digest in hex, a line end."""

log = structlog.stdlib.get_logger(__name__)


class RememberedIds:
    """Ids with the times when they expire, in seconds of `clock`; without a `path` in memory only.

    `what` they are is told in the log when the file cannot be used.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        path: Path | None = None,
        *,
        what: str = "ids",
        most: int = MAX_IDS,
    ) -> None:
        self._clock = clock
        self._path = path
        self._what = what
        self._most = most
        self._until: dict[str, int] = {}
        self._floor = 0
        self._lines = 0
        self._is_cut_off = False
        self._descriptor: int | None = None
        self._read()

    def __len__(self) -> int:
        return len(self._until)

    def has(self, id_: str, until: float) -> bool:
        """Return whether an id that expires at `until` is remembered, or may be."""
        return _whole(until) <= self._floor or _digest(id_) in self._until

    def add(self, id_: str, until: float) -> None:
        """Remember an id until it expires."""
        digest, end = _digest(id_), _whole(until)
        if digest in self._until or end <= self._clock():
            return
        self._until[digest] = end
        if len(self._until) > self._most:
            self._make_room()
        self._write(b"%d %b\n" % (end, digest.encode()))

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _make_room(self) -> None:
        """Forget the expired ids; if these are few, those that expire first, an eighth of all."""
        now = self._clock()
        self._until = {digest: end for digest, end in self._until.items() if end > now}
        if len(self._until) <= self._most - self._most // 8:
            return
        ends = sorted(self._until.values())
        self._floor = max(self._floor, ends[len(ends) - (self._most - self._most // 8) - 1])
        self._until = {digest: end for digest, end in self._until.items() if end > self._floor}

    # The file: a line `TIME DIGEST` for each id, and `TIME -` for the floor

    def _read(self) -> None:
        if self._path is None:
            return
        try:
            content = read_private(self._path, _LINE * (2 * self._most + 2))
        except FileNotFoundError:
            return
        except OSError as exc:
            self._give_up(exc)
            return
        for line in content.decode("ascii", "replace").splitlines():
            self._take(line)
        if len(self._until) > self._most:
            self._make_room()
        self._lines = content.count(b"\n")
        self._is_cut_off = not content.endswith(b"\n") and content != b""

    def _take(self, line: str) -> None:
        """Remember what a line of the file says; one that is damaged says nothing."""
        found = _ENTRY.fullmatch(line)
        if found is None or int(found[1]) <= self._clock():
            return
        if found[2] == "-":
            self._floor = max(self._floor, int(found[1]))
        else:
            self._until[found[2]] = int(found[1])

    def _write(self, line: bytes) -> None:
        if self._path is None:
            return
        try:
            if self._lines >= 2 * self._most:
                self._rewrite(self._path)
            elif self._descriptor is None:
                private_directory(self._path.parent)
                self._descriptor = append_private(self._path)
            if self._descriptor is not None:
                self._append(self._descriptor, line)
        except OSError as exc:
            self._give_up(exc)

    def _append(self, descriptor: int, line: bytes) -> None:
        # Behind a part of a line this one would be damaged, too.
        whole = b"\n" + line if self._is_cut_off else line
        if os.write(descriptor, whole) < len(whole):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._is_cut_off = False
        self._lines += 1

    def _rewrite(self, path: Path) -> None:
        """Replace the file by what is still remembered; the next line opens it again."""
        self.close()
        lines = [f"{self._floor} -\n", *(f"{end} {one}\n" for one, end in self._until.items())]
        replace_file(path, "".join(lines).encode())
        self._lines, self._is_cut_off = len(lines), False

    def _give_up(self, why: OSError) -> None:
        self.close()
        log.warning(
            "used ids are remembered only until this process ends",
            of=self._what,
            file=str(self._path),
            error=why.strerror,
            fix="Make the directory writable for the hub's user alone, or remove the file.",
        )
        self._path = None


def _whole(until: float) -> int:
    return int(until) + 1


def _digest(id_: str) -> str:
    return hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
