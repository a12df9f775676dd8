from __future__ import annotations

import pytest
from msgspec.structs import replace

from hub.children.failures import denied, failed, no_slot_free, tool_error, unanswered
from hub.guard.decide import SHOWN, Refused
from hub.jsonrpc.errors import GoneError, LostError, RpcError, SilentError
from hub.jsonrpc.messages import as_object
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.values import Call, JsonObject
from tests.kit.rigs import remote


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (
            SilentError("late"),
            "server 'files' did not answer within 300 s; the hub cancelled the call",
        ),
        (
            LostError(INTERNAL_ERROR, "it broke off"),
            "server 'files' gave no answer: it broke off; the server still runs and "
            "gets the next call",
        ),
        (
            GoneError("exited with code 1"),
            "server 'files' went away during the call: exited with code 1; the next call starts it",
        ),
    ],
)
def test_an_error_names_the_server_the_cause_and_what_the_hub_does_next(
    why: SilentError | LostError | GoneError, said: str
) -> None:
    assert str(unanswered(remote("files"), why, "the next call starts it")) == said


@pytest.mark.parametrize(
    ("concurrency", "taken"), [(1, "its only slot was taken"), (16, "all 16 slots were taken")]
)
def test_the_error_of_a_call_that_was_not_sent_names_the_taken_slots(
    concurrency: int, taken: str
) -> None:
    assert str(no_slot_free(replace(remote("files"), concurrency=concurrency))) == (
        f"server 'files' was not called: {taken} by other calls for the 300 s that a call waits; "
        "call it again later, or have its `concurrency` raised (more calls at a time) or its "
        "`timeout` (longer waits)"
    )


def test_a_tool_says_so_by_its_result() -> None:
    said = {"content": [{"type": "text", "text": "no"}], "isError": True}
    assert tool_error("no") == said


def test_a_failed_request_other_than_a_tool_call_is_an_error() -> None:
    assert failed("tools/call", "gone") == tool_error("gone")
    with pytest.raises(RpcError, match="gone") as caught:
        failed("prompts/get", "gone")
    assert caught.value.code == INTERNAL_ERROR


def test_a_refusal_says_why_and_where() -> None:
    refused = Refused("/path", "/x", "it is not safe for sharing", ("file:///r",))
    text = "Access denied: Path '/x' is refused: it is not safe for sharing"
    details: JsonObject = {
        "argument": "/a/path",
        "path": "/x",
        "reason": refused.reason,
        "mode": "enforce",
    }
    said = denied(Call("tools/call", "t", {}, {}), refused, remote("files"), "/a/path")
    assert said == {**tool_error(text), "_meta": {"roots-hub/refusal": details}}
    with pytest.raises(RpcError, match="is refused") as caught:
        denied(Call("resources/read", "t", {}, {}), refused, remote("files"), "/a/path")
    told: JsonObject = {"roots-hub/refusal": details}
    assert as_object(caught.value.error) == {"code": INVALID_PARAMS, "message": text, "data": told}


def test_a_refusal_of_a_large_argument_is_short() -> None:
    refused = Refused("/path", "/" + "x" * 1_000_000, "it is outside", ())
    said = denied(Call("tools/call", "t", {}, {}), refused, remote("files"), "/" + "k" * 1_000_000)
    assert len(str(said)) < 4 * SHOWN
