from hub.children.clients import Caller, ChildUser, InputNeededError
from hub.jsonrpc.messages import Notification
from hub.protocol.input_requests import CallState
from hub.specs import RemoteTarget, ServerSpec
from hub.values import JsonObject, ServerName, SessionKey
from tests.kit.fakes import RecordingAsker, RecordingLessee

SPEC = ServerSpec(ServerName("files"), RemoteTarget("https://example.com/mcp"))


async def test_anything_with_ask_and_tell_can_be_the_caller() -> None:
    made = RecordingAsker("a")
    caller: Caller = made
    assert caller.session == SessionKey("a")
    assert caller.progress is None
    assert await caller.ask("sampling/createMessage", {}) == {"answered": "a"}
    await caller.tell(SPEC, Notification("n", {}))
    assert made.told == [Notification("n", {})]


async def test_whoever_listens_can_use_a_child() -> None:
    made = RecordingLessee()
    user: ChildUser = made
    await user.told(SPEC, Notification("n", {}))
    await user.came(SPEC)
    assert (made.heard, made.arrivals) == ([Notification("n", {})], ["files"])


def test_an_input_needed_error_has_the_requests_and_the_state() -> None:
    requests: JsonObject = {"a": {"method": "m"}}
    needed = InputNeededError(requests, CallState(parked="p"), lasts=3.0)
    assert (needed.requests, needed.state.parked, needed.lasts) == (requests, "p", 3.0)
