"""Error texts and tool results for calls that failed, were refused, or were never sent."""

from __future__ import annotations

from hub.errors import ChildError
from hub.guard.decide import SHOWN, Refused
from hub.jsonrpc.errors import GoneError, LostError, RpcError, SilentError
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.specs import ServerSpec
from hub.values import Call, CallMethod, JsonObject


def unanswered(
    spec: ServerSpec, why: SilentError | LostError | GoneError, outlook: str
) -> ChildError:
    """Return the error for a call without a response; `outlook` says what the hub does next."""
    name = spec.name
    match why:
        case SilentError():
            within = f"within {spec.timeout:g} s"
            return ChildError(
                f"server {name!r} did not answer {within}; the hub cancelled the call"
            )
        case LostError():
            return ChildError(
                f"server {name!r} gave no answer: {why}; the server still runs and "
                "gets the next call"
            )
        case GoneError():
            return ChildError(f"server {name!r} went away during the call: {why}; {outlook}")


def no_slot_free(spec: ServerSpec) -> ChildError:
    """Return the error for a call that was not sent: all slots were taken for the whole timeout."""
    taken = "its only slot was" if spec.concurrency == 1 else f"all {spec.concurrency} slots were"
    return ChildError(
        f"server {spec.name!r} was not called: {taken} taken by other calls for the "
        f"{spec.timeout:g} s that a call waits; call it again later, or have its `concurrency` "
        "raised (more calls at a time) or its `timeout` (longer waits)"
    )


def no_turn(spec: ServerSpec) -> ChildError:
    """Return the error for a call that was not sent: another client's could be asked meanwhile."""
    return ChildError(
        f"server {spec.name!r} was not called: for the {spec.timeout:g} s that a call waits, it "
        "served other calls that it may ask about, and it does not say for which one it asks; call "
        "it again later, or set `share: session` to give each client a server of its own"
    )


def line_full(spec: ServerSpec, most: int) -> ChildError:
    """Return the error for a call that was not sent: too many calls wait for `no_turn`'s reason."""
    return ChildError(
        f"server {spec.name!r} was not called: {most} calls wait already for others that it may "
        "ask about, as it does not say for which call it asks; make fewer calls at a time"
    )


def tool_error(text: str) -> JsonObject:
    """Return a tool result with `isError` and this text."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def failed(method: CallMethod, text: str) -> JsonObject:
    """Return the result of a call that failed.

    Raises: RpcError if `method` is not `tools/call`, as only tools have such results.
    """
    if method != "tools/call":
        raise RpcError(INTERNAL_ERROR, text)
    return tool_error(text)


def denied(call: Call, refused: Refused, spec: ServerSpec, pointer: str) -> JsonObject:
    """Return the result of a call that the guard refused; `pointer` locates the argument.

    Raises: RpcError if the call is not a `tools/call`, as only tools have such results.
    """
    text = refused.message()
    details: JsonObject = {
        "argument": pointer[:SHOWN],
        "path": refused.path[:SHOWN],
        "reason": refused.reason,
        "mode": spec.policy.mode.value,
    }
    if call.method != "tools/call":
        raise RpcError(INVALID_PARAMS, text, {"roots-hub/refusal": details})
    return {**tool_error(text), "_meta": {"roots-hub/refusal": details}}
