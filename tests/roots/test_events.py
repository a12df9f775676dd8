from typing import get_args

from hub.roots import state as events
from hub.roots.state import ClientEvent, Effect, Failed, OwnEvent, RootsEvent


def test_every_event_is_the_clients_or_the_hubs_own_and_no_effect() -> None:
    clients, own, effects = map(set, map(get_args, (ClientEvent, OwnEvent, Effect)))
    assert clients | own == set(get_args(RootsEvent))
    assert not clients & own
    assert not effects & (clients | own)
    words = {word for word in vars(events).values() if isinstance(word, type)}
    assert clients | own | effects <= words


def test_a_failure_is_one_of_a_client_that_was_reached_unless_it_says_otherwise() -> None:
    assert not Failed(1, "no answer", 0.0).unreachable
