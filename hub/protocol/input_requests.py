"""What a child may ask of a client: who takes it, under which key, and in which era's words."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hub.values import Json, JsonObject, object_or_empty

SAMPLING: Final = "sampling/createMessage"
ELICITATION: Final = "elicitation/create"
ELICITED: Final = "notifications/elicitation/complete"
"""Tells a client of the handshake era that what it was sent to a URL for is done."""
URL_NEEDED: Final = -32042
"""With this error a server of the handshake era sends a client to a URL, to call again then."""
FOR_CLIENTS: Final = {SAMPLING: "sampling", ELICITATION: "elicitation"}
"""What children ask of clients, and the capability that a client declares for it."""
ASKABLE: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The requests of the modern era that may be answered with a request for input."""

_OWN: Final = "roots-hub/"
ROOTS_KEY: Final = _OWN + "roots"
"""Under which the hub asks for roots, beside what a child may ask for."""
CONSENT_KEY: Final = _OWN + "consent"
"""Under which the hub asks for consent."""
ROOTS: Final[JsonObject] = {ROOTS_KEY: {"method": "roots/list"}}
"""The request for a client's roots."""
_ESCAPED: Final = _OWN + "child/"


def wanting_roots(state: Json = None) -> JsonObject:
    """Return the result that asks a client for its roots, and for its state again if it had one."""
    held: JsonObject = {} if state is None else {"requestState": state}
    return {"resultType": "input_required", "inputRequests": ROOTS, **held}


def outward(key: str) -> str:
    """Return a child's key as clients see it: as it is, unless it could be one of the hub's."""
    return _ESCAPED + key if key.startswith(_OWN) else key


def inward(responses: Json, keys: Collection[str] | None) -> JsonObject:
    """Return a client's responses under the child's own keys, without those to the hub.

    Only those that were asked for; `keys` None: all of them.
    """
    found: JsonObject = {}
    for key, response in object_or_empty(responses).items():
        own = key.removeprefix(_ESCAPED)
        if outward(own) == key and (keys is None or own in keys):
            found[own] = response
    return found


# Who takes it


def takes_forms(capabilities: JsonObject) -> bool:
    """Return whether a client that declares this can show its user a form."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and ("form" in declared or "url" not in declared)


def takes_urls(capabilities: JsonObject) -> bool:
    """Return whether a client that declares this can send its user to a URL."""
    return "url" in object_or_empty(capabilities.get("elicitation"))


def accepts(capabilities: JsonObject, method: str, params: JsonObject) -> bool:
    """Return whether a client that declares this takes such a request."""
    if method == ELICITATION:
        mode = takes_urls if is_url(params) else takes_forms
        return mode(capabilities)
    declared = capabilities.get(FOR_CLIENTS.get(method, ""))
    return declared is not None and declared is not False


def is_url(params: JsonObject) -> bool:
    """Return whether an elicitation sends the user to a URL."""
    return params.get("mode") == "url"


def mode_of(method: str, params: JsonObject) -> str:
    """Return what a request asks for, in words for who is refused."""
    return f"{method} in URL mode" if method == ELICITATION and is_url(params) else method


def needed(method: str, params: JsonObject) -> JsonObject:
    """Return what a client would have to declare for such a request."""
    if method != ELICITATION:
        return {FOR_CLIENTS[method]: {}}
    return {"elicitation": {"url": {}} if is_url(params) else {"form": {}}}


# In which era's words


def in_modern_words(method: str, params: JsonObject) -> JsonObject:
    """Return the params of a request of the handshake era as a modern client is asked.

    It is told of no elicitation's end, so it gets no id to know one by.
    """
    if method == ELICITATION and is_url(params):
        return {key: value for key, value in params.items() if key != "elicitationId"}
    return params


def in_legacy_words(method: str, params: JsonObject, elicitation: str) -> JsonObject:
    """Return the params of a modern child's request as a client of the handshake era is asked.

    Where the user is sent to a URL, `elicitation` is the id that its end will be known by.
    """
    if method == ELICITATION and is_url(params):
        return {**params, "elicitationId": elicitation}
    return params


def urls_needed(error: JsonObject) -> tuple[JsonObject, ...]:
    """Return to which URLs an error of the handshake era sends the client; none if it does not."""
    listed = object_or_empty(error.get("data")).get("elicitations")
    if error.get("code") != URL_NEEDED or not isinstance(listed, list):
        return ()
    return tuple(one for one in listed if isinstance(one, dict) and isinstance(one.get("url"), str))
