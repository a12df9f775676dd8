"""Input requests of a child to a client: sampling, elicitation, roots; capabilities, keys, eras.

A modern client answers them with a retry, which also returns `requestState`: the state of the call.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from hub.values import Json, JsonObject, ServerName, object_or_empty

SAMPLING: Final = "sampling/createMessage"
ELICITATION: Final = "elicitation/create"
ELICITED: Final = "notifications/elicitation/complete"
"""Tells a legacy client that a URL elicitation is completed."""
URL_NEEDED: Final = -32042
"""Error code of a legacy server: the user must visit a URL, then the client calls again."""
FOR_CLIENTS: Final = {SAMPLING: "sampling", ELICITATION: "elicitation"}
"""The requests of children to clients, and the client capability that each needs."""
ASKABLE: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The modern requests whose result may be `input_required`."""

_OWN: Final = "roots-hub/"
ROOTS_KEY: Final = _OWN + "roots"
"""The key of the hub's own input request for roots, besides the keys of a child."""
CONSENT_KEY: Final = _OWN + "consent"
"""The key of the hub's own input request for consent."""
LOGIN_KEY: Final = _OWN + "login"
"""The key of the hub's own input request that sends a person to the login of a server."""
ROOTS: Final[JsonObject] = {ROOTS_KEY: {"method": "roots/list"}}
"""The input request for a client's roots."""
_ESCAPED: Final = _OWN + "child/"


def wanting_roots(state: Json = None) -> JsonObject:
    """Return the `input_required` result that asks a modern client for its roots.

    `state` is the `requestState` that the client sent; it gets the same one back.
    """
    held: JsonObject = {} if state is None else {"requestState": state}
    return {"resultType": "input_required", "inputRequests": ROOTS, **held}


def outward(key: str) -> str:
    """Return a child's key as clients see it: escaped if it starts like the hub's own keys."""
    return _ESCAPED + key if key.startswith(_OWN) else key


def inward(responses: Json, keys: Collection[str] | None) -> JsonObject:
    """Return a client's responses under the child's own keys, without the hub's own.

    Only responses to `keys` are returned; with None, all of them.
    """
    found: JsonObject = {}
    for key, response in object_or_empty(responses).items():
        own = key.removeprefix(_ESCAPED)
        if outward(own) == key and (keys is None or own in keys):
            found[own] = response
    return found


# Which client accepts a request


def takes_forms(capabilities: JsonObject) -> bool:
    """Return whether a client with these capabilities can show its user a form."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and ("form" in declared or "url" not in declared)


def takes_urls(capabilities: JsonObject) -> bool:
    """Return whether a client with these capabilities can send its user to a URL."""
    return "url" in object_or_empty(capabilities.get("elicitation"))


def accepts(capabilities: JsonObject, method: str, params: JsonObject) -> bool:
    """Return whether a client with these capabilities accepts the request."""
    if method == ELICITATION:
        mode = takes_urls if is_url(params) else takes_forms
        return mode(capabilities)
    declared = capabilities.get(FOR_CLIENTS.get(method, ""))
    if declared is None or declared is False:
        return False
    return not has_tools(params) or "tools" in object_or_empty(declared)


def is_url(params: JsonObject) -> bool:
    """Return whether the params are those of a URL elicitation."""
    return params.get("mode") == "url"


def has_tools(params: JsonObject) -> bool:
    """Return whether the params of a sampling request let the model use tools."""
    return params.get("tools") is not None or params.get("toolChoice") is not None


def mode_of(method: str, params: JsonObject) -> str:
    """Return the name of a request for an error message."""
    if method == ELICITATION:
        return f"{method} in URL mode" if is_url(params) else method
    return f"{method} with tools" if has_tools(params) else method


def needed(method: str, params: JsonObject) -> JsonObject:
    """Return the capabilities that a client must declare for the request."""
    if method != ELICITATION:
        more: JsonObject = {"tools": {}} if has_tools(params) else {}
        return {FOR_CLIENTS[method]: more}
    return {"elicitation": {"url": {}} if is_url(params) else {"form": {}}}


# Translation between the eras


def in_modern_words(method: str, params: JsonObject) -> JsonObject:
    """Return the params of a legacy request for a modern client.

    `elicitationId` is removed: modern clients are not told when a URL elicitation is completed.
    """
    if method == ELICITATION and is_url(params):
        return {key: value for key, value in params.items() if key != "elicitationId"}
    return params


def in_legacy_words(method: str, params: JsonObject, elicitation: str) -> JsonObject:
    """Return the params of a modern child's request for a legacy client.

    A URL elicitation gets the id `elicitation`, which the later completion notification names.
    """
    if method == ELICITATION and is_url(params):
        return {**params, "elicitationId": elicitation}
    return params


def urls_needed(data: JsonObject) -> tuple[JsonObject, ...]:
    """Return the URL elicitations in the data of a legacy `URL_NEEDED` error; empty if none."""
    listed = data.get("elicitations")
    if not isinstance(listed, list):
        return ()
    return tuple(one for one in listed if isinstance(one, dict) and isinstance(one.get("url"), str))


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
