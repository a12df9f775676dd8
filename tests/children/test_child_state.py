from hub.catalog.merge import Listing
from hub.children.child import Down, Ready, Starting
from hub.children.handshake import ServerHandshake

GREETING = ServerHandshake("legacy", "2025-11-25", {}, {}, "", {})


def test_states_are_equal_that_say_the_same() -> None:
    assert Starting() == Starting()
    assert Down("gone") == Down("gone") != Down("killed")
    listed = Ready(GREETING, Listing(tools=({"name": "echo"},)))
    assert listed == Ready(GREETING, Listing(tools=({"name": "echo"},)))
    assert listed != Ready(GREETING, Listing())
