"""What a modern client carries for the hub from one round of a call to the next."""

from __future__ import annotations

import hashlib
import json

from msgspec import Struct, field

from hub.values import Json, JsonObject, ServerName


def digest(value: Json) -> str:
    """Return a hash of any JSON: the same for the same value, whatever the order of its keys."""
    # ASCII, so that half of a character has a form too; `repr` tells a decimal from its text.
    text = json.dumps(value, sort_keys=True, default=repr).encode("ascii")
    return hashlib.sha256(text).hexdigest()


class ChildInputRound(Struct, frozen=True):
    """What the modern child `server` asked: of the client under `keys`, of the hub under `own`.

    `own` has the method behind each key, `state` is the child's own state, which is its secret.
    `wants_roots`: it asked for roots that the client had not been asked for.
    """

    server: ServerName
    keys: tuple[str, ...]
    own: JsonObject
    state: Json
    wants_roots: bool = False


class CallState(Struct, frozen=True):
    """What the next round of a call builds on.

    `consent` proves which question the user was asked, `consented` what the user has said yes to,
    `parked` names the call that waits. `unasked`: the client was not asked for its roots.
    """

    consent: str | None = None
    consented: str | None = None
    parked: str | None = None
    child: ChildInputRound | None = None
    unasked: bool = False

    def fields(self) -> JsonObject:
        """Return it as JSON."""
        child = self.child
        return {
            "consent": self.consent,
            "consented": self.consented,
            "parked": self.parked,
            "child": None
            if child is None
            else [child.server, list(child.keys), child.own, child.state, child.wants_roots],
            "unasked": self.unasked,
        }


NO_STATE = CallState()


def state_in(fields: JsonObject) -> CallState:
    """Return what `CallState.fields` was made of; for what the hub itself has written alone."""
    child = fields.get("child")
    return CallState(
        _text(fields.get("consent")),
        _text(fields.get("consented")),
        _text(fields.get("parked")),
        _child_in(child) if isinstance(child, list) else None,
        fields.get("unasked") is True,
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _child_in(listed: list[Json]) -> ChildInputRound | None:
    match listed:
        case [str(server), list(keys), dict(own), state, bool(wants_roots)]:
            return ChildInputRound(
                ServerName(server), tuple(map(str, keys)), own, state, wants_roots
            )
        case _:
            return None


class RetryInput(Struct, frozen=True):
    """What one request brings for the call that it continues.

    `is_retry`: it brought a state, so its responses are to what was asked in the round before.
    """

    state: CallState = NO_STATE
    responses: JsonObject = field(default_factory=dict[str, "Json"])
    is_retry: bool = False


NO_RETRY = RetryInput()
"""What a request brings that continues nothing."""


def identity(principal: str, method: str, params: JsonObject) -> str:
    """Return what makes two requests the same call of the same asker: other rounds of one call."""
    name = params.get("uri" if method == "resources/read" else "name")
    return digest([principal, method, name, params.get("arguments")])
