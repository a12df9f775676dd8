"""`requestState` of a modern call: the state that the client returns with its retry."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct, field

from hub.values import Json, JsonObject, ServerName


def digest(value: Json) -> str:
    """Return the SHA-256 of a JSON value in hex; the order of keys does not matter."""
    # ASCII, so that a lone surrogate can be encoded.
    text = json.dumps(_marked(value), sort_keys=True).encode("ascii")
    return hashlib.sha256(text).hexdigest()


def _marked(value: Json) -> Json:
    """Return `value` with a text for each decimal, and texts that differ from those."""
    if isinstance(value, str):
        return f"'{value}"
    if isinstance(value, Decimal):
        return repr(value)
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    return value


class ChildInputRound(Struct, frozen=True, array_like=True):
    """The input requests of the modern child `server`: `keys` for the client, `own` for the hub.

    `own` maps each key to its method. `state` is the child's own state, any JSON, and must stay
    secret. `wants_roots`: the child asked for roots, and the client had not been asked for its
    roots.
    """

    server: ServerName
    keys: tuple[str, ...]
    own: dict[str, Any]  # a `JsonObject`; msgspec reads no type that has both `str` and `Decimal`
    state: Any
    wants_roots: bool = False


class CallState(Struct, frozen=True):
    """The state of a call between two rounds.

    `consent` is the digest of the question that the user was asked, `consented` the digest of what
    the user has allowed. `parked` is the id of the call that waits for the retry. `unasked`: the
    client was not asked for its roots.
    """

    consent: str | None = None
    consented: str | None = None
    parked: str | None = None
    child: ChildInputRound | None = None
    unasked: bool = False

    def fields(self) -> JsonObject:
        """Return the state as a JSON object."""
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
    """Return the state that `CallState.fields` wrote, `NO_STATE` for anything else.

    Trusted input only, from the hub itself.
    """
    try:
        return msgspec.convert(fields, CallState)
    except msgspec.ValidationError:
        return NO_STATE


class RetryInput(Struct, frozen=True):
    """The state and input responses in one request of a call.

    `is_retry`: the request has a state, so the responses belong to the round before.
    """

    state: CallState = NO_STATE
    responses: JsonObject = field(default_factory=dict[str, "Json"])
    is_retry: bool = False


NO_RETRY = RetryInput()
"""The input of a first request: no state and no responses."""


def call_digest(identity: str, method: str, params: JsonObject) -> str:
    """Return a digest that is the same for all requests of one call.

    It is of the client's identity, the method, the target and the arguments.
    """
    name = params.get("uri" if method == "resources/read" else "name")
    return digest([identity, method, name, params.get("arguments")])
