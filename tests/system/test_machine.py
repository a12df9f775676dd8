import pytest

from hub.system.machine import CACHE, STATE, own_directory


@pytest.mark.parametrize(
    ("environment", "state", "cache"),
    [
        ({"HOME": "/h"}, "/h/.local/state/roots-hub", "/h/.cache/roots-hub"),
        (
            {"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c"},
            "/s/roots-hub",
            "/c/roots-hub",
        ),
        (
            {"HOME": "/h", "XDG_STATE_HOME": "s", "XDG_CACHE_HOME": "c"},
            "/h/.local/state/roots-hub",
            "/h/.cache/roots-hub",
        ),
    ],
)
def test_the_hubs_own_directories_are_where_the_environment_says(
    environment: dict[str, str], state: str, cache: str
) -> None:
    assert own_directory(environment, *STATE) == state
    assert own_directory(environment, *CACHE) == cache
