from hub.core.specs import RemoteTarget, ServerSpec
from hub.core.values import ServerName, SessionKey
from hub.runtime.parties import Asker, Lessee
from hub.runtime.wire import Notification
from tests.fakes import RecordingAsker, RecordingLessee

SPEC = ServerSpec(ServerName("files"), RemoteTarget("https://example.com/mcp"))


async def test_whoever_can_be_asked_and_told_can_stand_behind_a_call() -> None:
    made = RecordingAsker("a")
    asker: Asker = made
    assert asker.session == SessionKey("a")
    assert asker.progress is None
    assert await asker.ask("sampling/createMessage", {}) == {"answered": "a"}
    await asker.tell(SPEC, Notification("n", {}))
    assert made.told == [Notification("n", {})]


async def test_whoever_listens_can_use_a_child() -> None:
    made = RecordingLessee()
    lessee: Lessee = made
    await lessee.told(SPEC, Notification("n", {}))
    await lessee.came(SPEC)
    assert (made.heard, made.arrivals) == ([Notification("n", {})], ["files"])
