"""Translates a child's requests for input between the legacy and the modern protocol era.

A legacy client is asked by a request within the call. A modern client is asked by the call's
result: a modern child's requests are passed on, and the child is called again with the answers.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping

from hub.children.clients import InputNeededError
from hub.jsonrpc import messages
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Payload
from hub.protocol.constants import MISSING_CLIENT_CAPABILITY
from hub.protocol.input_requests import (
    ELICITATION,
    URL_NEEDED,
    accepts,
    in_legacy_words,
    in_modern_words,
    is_url,
    mode_of,
    needed,
    outward,
    takes_urls,
    urls_needed,
)
from hub.protocol.request_state import NO_STATE, CallState
from hub.sessions.client import Client
from hub.sessions.notifications import ClientNotifier
from hub.specs import ServerSpec
from hub.values import JsonObject, object_or_empty


async def ask_within(
    ask: Callable[[str, JsonObject], Awaitable[Payload]], request: JsonObject
) -> tuple[JsonObject, str | None]:
    """Send one request of a modern child to a legacy client; return the answer.

    Also return the elicitation id if the user accepted to open a URL, or else None.

    Raises: RpcError, as `ask` does.
    """
    method, params = str(request.get("method")), object_or_empty(request.get("params"))
    elicitation = secrets.token_hex(16)
    answer = messages.as_object(await ask(method, in_legacy_words(method, params, elicitation)))
    is_sent = method == ELICITATION and is_url(params) and answer.get("action") == "accept"
    return answer, elicitation if is_sent else None


def ask_by_result(
    client: Client,
    spec: ServerSpec,
    requests: Mapping[str, JsonObject],
    state: CallState,
) -> InputNeededError:
    """Return the error that asks a modern client, by the call's result, for a modern child's input.

    Raises: RpcError if the client does not support one of the requests.
    """
    for request in requests.values():
        method, params = str(request.get("method")), object_or_empty(request.get("params"))
        if not accepts(client.capabilities, method, params):
            raise RpcError(
                MISSING_CLIENT_CAPABILITY,
                f"server {spec.name!r} asks for {mode_of(method, params)}, which the client does "
                "not declare",
                {"requiredCapabilities": needed(method, params)},
            )
    asked: JsonObject = {outward(key): request for key, request in requests.items()}
    return InputNeededError(asked, state, lasts=spec.timeout)


def send_to_urls(
    client: Client | None,
    notifier: ClientNotifier,
    spec: ServerSpec,
    error: RpcError,
    state: CallState = NO_STATE,
) -> None:
    """Prepare the client to open the URLs in a child's `URL_NEEDED` error; ignore other errors.

    A legacy client gets the error itself, and a notification when the elicitation is complete.

    Raises: InputNeededError for a modern client that supports URLs; its retry is the next attempt.
    """
    if client is None or error.code != URL_NEEDED:
        return
    wanted = urls_needed(error.data)
    if not client.is_modern:
        for one in wanted:
            notifier.sent_to(one.get("elicitationId"))
    elif wanted and takes_urls(client.capabilities):
        requests: JsonObject = {}
        for number, one in enumerate(wanted, 1):
            params = in_modern_words(ELICITATION, {**one, "mode": "url"})
            requests[f"url/{number}"] = {"method": ELICITATION, "params": params}
        raise InputNeededError(requests, state, lasts=spec.timeout)
