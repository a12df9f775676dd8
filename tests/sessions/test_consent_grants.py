from pathlib import Path

from hub.sessions.decisions import ConsentGrants
from hub.values import ServerName
from tests.kit.rigs import roots_at
from tests.kit.trees import plant

FILES, OTHER = ServerName("files"), ServerName("other")


def test_a_grant_is_for_one_server_and_for_what_was_asked(tmp_path: Path) -> None:
    (a, b) = roots_at(*(plant(tmp_path, "a/", "b/") / name for name in "ab")).roots
    grants = ConsentGrants()
    grants.add(FILES, a, writes=False)
    grants.add(FILES, b, writes=True)
    assert grants.of(FILES, writes=False) == (a, b)
    assert grants.of(FILES, writes=True) == (b,)
    assert grants.of(OTHER, writes=False) == ()


def test_the_same_place_is_kept_once(tmp_path: Path) -> None:
    (a,) = roots_at(tmp_path).roots
    grants = ConsentGrants()
    grants.add(FILES, a, writes=False)
    grants.add(FILES, a, writes=False)
    assert grants.of(FILES, writes=False) == (a,)
