import base64

import pytest

from hub.catalog.pages import CursorError, page_of
from hub.values import JsonObject

LISTING: tuple[JsonObject, ...] = tuple({"name": f"t{i}"} for i in range(5))


def cursor_of(listing: tuple[JsonObject, ...]) -> str:
    cursor = page_of(listing, size=2).next_cursor
    assert cursor is not None
    return cursor


def test_a_short_listing_is_one_page() -> None:
    assert page_of(LISTING).entries is LISTING
    assert page_of(LISTING, size=5).next_cursor is None


def test_pages_follow_each_other_to_the_end() -> None:
    seen: list[JsonObject] = []
    cursor = None
    while True:
        page = page_of(LISTING, cursor, size=2)
        seen += page.entries
        cursor = page.next_cursor
        if cursor is None:
            break
    assert tuple(seen) == LISTING


def test_g07_a_changed_or_other_listing_makes_a_cursor_stale() -> None:
    changed: tuple[JsonObject, ...] = (*LISTING[:-1], {"name": "new"})
    other: tuple[JsonObject, ...] = ({"uri": "t0"},)
    for listing in (changed, LISTING[:2], other, ()):
        with pytest.raises(CursorError, match="has changed") as raised:
            page_of(listing, cursor_of(LISTING), size=2)
        assert raised.value.data["cursor"] == cursor_of(LISTING)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "é",
        "Zm9v",
        "/w==",
        "2",
        *(base64.b64encode(t).decode() for t in (b"a:-1", b"a:" + b"9" * 5000, b":")),
    ],
)
def test_g07_a_foreign_cursor_is_refused_with_a_reason(cursor: str) -> None:
    with pytest.raises(CursorError, match="not a cursor of this hub") as raised:
        page_of(LISTING, cursor, size=2)
    assert raised.value.data == {"reason": "not a cursor of this hub", "cursor": cursor}


def test_a_cursor_beyond_the_end_is_stale() -> None:
    digest = base64.b64decode(cursor_of(LISTING)).partition(b":")[0]
    with pytest.raises(CursorError, match="has changed"):
        page_of(LISTING, base64.b64encode(digest + b":5").decode(), size=2)


def test_names_of_any_characters_have_a_digest() -> None:
    assert page_of(({"name": "\udc80"}, {"name": "b"}), size=1).next_cursor is not None
