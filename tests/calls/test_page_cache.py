from __future__ import annotations

import json

import pytest
from msgspec import Raw

from hub.calls.listings import Entries, PageCache, encoded
from hub.catalog.pages import PAGE_SIZE
from hub.errors import RouteError
from hub.values import JsonObject


def tools(count: int, text: str = "") -> Entries:
    return tuple({"name": f"t{number}", "description": text} for number in range(count))


def read(page: Raw) -> JsonObject:
    return json.loads(bytes(page))


def test_a_page_is_the_result_of_its_request() -> None:
    shown = tools(2, "ü")
    for page in (PageCache().page("tools/list", shown, None), encoded("tools/list", shown, None)):
        assert read(page) == {"tools": list(shown)}
    assert read(encoded("prompts/list", (), None)) == {"prompts": []}


def test_a_page_is_made_once_for_a_listing_and_again_for_another() -> None:
    listed, shown = PageCache(), tools(2)
    first = listed.page("tools/list", shown, None)
    assert listed.page("tools/list", shown, None) is first
    other = listed.page("tools/list", tools(3), None)
    assert read(other) == {"tools": list(tools(3))}
    assert listed.page("tools/list", shown, None) is first


def test_empty_listings_of_two_kinds_are_two_pages() -> None:
    listed = PageCache()
    assert read(listed.page("prompts/list", (), None)) == {"prompts": []}
    assert read(listed.page("resources/list", (), None)) == {"resources": []}


def test_every_page_of_a_long_listing_is_kept() -> None:
    listed, shown = PageCache(), tools(PAGE_SIZE + 1)
    first = listed.page("tools/list", shown, None)
    cursor = read(first)["nextCursor"]
    assert isinstance(cursor, str)
    last = listed.page("tools/list", shown, cursor)
    assert read(last) == {"tools": [shown[-1]]}
    assert listed.page("tools/list", shown, cursor) is last
    with pytest.raises(RouteError):
        listed.page("tools/list", shown, "made up")


def test_pages_are_kept_as_far_as_there_is_room() -> None:
    one, two = tools(1, "x" * 100), tools(1, "y" * 100)
    size = len(bytes(encoded("tools/list", one, None)))
    listed = PageCache(size)
    first = listed.page("tools/list", one, None)
    assert listed.page("tools/list", one, None) is first
    second = listed.page("tools/list", two, None)
    assert listed.page("tools/list", two, None) is second
    assert listed.page("tools/list", one, None) is not first
    listed, large = PageCache(0), tools(5)
    assert listed.page("tools/list", large, None) is not listed.page("tools/list", large, None)
