from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest
from msgspec import Raw
from structlog.testing import capture_logs

from hub.catalog.merge import Listing
from hub.children.handshake import ServerHandshake
from hub.children.listing import (
    AT_ONCE,
    MAX_ENTRIES,
    MAX_LEFT_OUT,
    MAX_PAGES,
    read_listing,
    readable,
)
from hub.jsonrpc.errors import GoneError, RpcError, SilentError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.pipes import LARGE
from hub.jsonrpc.rated_log import BYTES, ChildLog
from hub.protocol.constants import INTERNAL_ERROR, INVALID_REQUEST, LISTS, METHOD_NOT_FOUND
from hub.values import Json, JsonObject

LOG = ChildLog("files")
Pages = Callable[[str, JsonObject], JsonObject]


def handshake(*capabilities: str) -> ServerHandshake:
    return ServerHandshake("legacy", "2025-11-25", {name: {} for name in capabilities}, {}, "", {})


class PagedChild:
    """A child's listings; records the requests."""

    def __init__(self, answer: Pages) -> None:
        self.asked: list[tuple[str, JsonObject]] = []
        self._answer = answer

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append((method, params))
        return self._answer(method, params)


def one_of_each(method: str, params: JsonObject) -> JsonObject:
    return {LISTS[method]: [{"name": method}]}


async def test_every_list_that_a_child_declares_is_read() -> None:
    asked = PagedChild(one_of_each)
    listing = await read_listing(asked.request, handshake("tools", "resources", "prompts"), LOG)
    assert listing == Listing(
        tools=({"name": "tools/list"},),
        resources=({"name": "resources/list"},),
        templates=({"name": "resources/templates/list"},),
        prompts=({"name": "prompts/list"},),
    )
    assert asked.asked == [(method, {}) for method in LISTS]


async def test_a_list_that_a_child_does_not_declare_is_not_asked_for() -> None:
    asked = PagedChild(one_of_each)
    assert await read_listing(asked.request, handshake(), LOG) == Listing()
    listing = await read_listing(asked.request, handshake("prompts"), LOG)
    assert listing == Listing(prompts=({"name": "prompts/list"},))
    assert [method for method, _ in asked.asked] == ["prompts/list"]


async def test_only_changed_lists_are_read_again() -> None:
    known = Listing(tools=({"name": "old"},), prompts=({"name": "kept"},))
    asked = PagedChild(one_of_each)
    listing = await read_listing(
        asked.request, handshake("tools", "prompts"), LOG, methods=["tools/list"], known=known
    )
    assert listing == Listing(tools=({"name": "tools/list"},), prompts=({"name": "kept"},))


async def test_a_list_is_read_to_its_last_page_and_in_order() -> None:
    def pages(method: str, params: JsonObject) -> JsonObject:
        number = int(str(params.get("cursor", "0")))
        more: JsonObject = {"nextCursor": str(number + 1)} if number < 2 else {}
        return {"tools": [{"name": f"{number}a"}, {"name": f"{number}b"}], **more}

    asked = PagedChild(pages)
    listing = await read_listing(asked.request, handshake("tools"), LOG)
    names = [tool["name"] for tool in listing.tools]
    assert names == ["0a", "0b", "1a", "1b", "2a", "2b"]
    assert [params for _, params in asked.asked] == [{}, {"cursor": "1"}, {"cursor": "2"}]


@pytest.mark.parametrize("cursor", ["same", 5, None, ["x"]])
async def test_a_cursor_that_leads_in_a_circle_or_nowhere_ends_the_list(cursor: Json) -> None:
    asked = PagedChild(lambda method, params: {"tools": [{"name": "a"}], "nextCursor": cursor})
    listing = await read_listing(asked.request, handshake("tools"), LOG)
    assert len(listing.tools) == len(asked.asked) == (2 if cursor == "same" else 1)


async def test_a_list_without_end_is_cut_off() -> None:
    def endless(method: str, params: JsonObject) -> JsonObject:
        return {"tools": [{"name": "a"}], "nextCursor": f"{params.get('cursor', '')}x"}

    with capture_logs() as logs:
        listing = await read_listing(PagedChild(endless).request, handshake("tools"), LOG)
    assert len(listing.tools) == MAX_PAGES
    assert logs[0]["event"] == "listing cut off"


@pytest.mark.parametrize("found", ["nope", None, {"name": "x"}])
async def test_a_result_that_is_not_a_list_counts_as_empty(found: Json) -> None:
    asked = PagedChild(lambda method, params: {"tools": found})
    assert await read_listing(asked.request, handshake("tools"), LOG) == Listing()


async def test_entries_that_are_no_objects_are_left_out_and_others_stay_as_they_are() -> None:
    entry: JsonObject = {"name": "x", "unknown": {"kept": [1]}}
    asked = PagedChild(lambda method, params: {"tools": [1, "y", entry, None]})
    listing = await read_listing(asked.request, handshake("tools"), LOG)
    assert listing.tools == (entry,)
    assert listing.tools[0] is entry


async def test_a_list_that_a_child_turns_out_not_to_have_is_empty() -> None:
    def partly(method: str, params: JsonObject) -> JsonObject:
        if method == "resources/templates/list":
            raise RpcError(METHOD_NOT_FOUND, "no")
        return one_of_each(method, params)

    listing = await read_listing(PagedChild(partly).request, handshake("resources", "tools"), LOG)
    assert listing.templates == ()
    assert len(listing.resources) == len(listing.tools) == 1


@pytest.mark.parametrize(
    "error", [RpcError(INTERNAL_ERROR, "broken"), WireError(INVALID_REQUEST, "no object")]
)
async def test_a_list_that_is_answered_with_an_error_stays_as_known(error: Exception) -> None:
    def partly(method: str, params: JsonObject) -> JsonObject:
        if method == "prompts/list":
            raise error
        return one_of_each(method, params)

    known = Listing(tools=({"name": "old"},), prompts=({"name": "kept"},))
    asked, offers = PagedChild(partly), handshake("tools", "prompts")
    with capture_logs() as logs:
        listing = await read_listing(asked.request, offers, LOG, known=known)
        first = await read_listing(asked.request, offers, LOG)
    assert listing == Listing(tools=({"name": "tools/list"},), prompts=({"name": "kept"},))
    assert first == Listing(tools=({"name": "tools/list"},))
    assert [(entry["event"], entry["method"]) for entry in logs] == [
        ("listing failed", "prompts/list")
    ] * 2


async def test_an_error_in_the_middle_of_a_list_leaves_what_was_known_or_is_there() -> None:
    def second_page(method: str, params: JsonObject) -> JsonObject:
        if params:
            raise RpcError(INTERNAL_ERROR, "broken")
        return {"tools": [{"name": "half"}], "nextCursor": "2"}

    known = Listing(tools=({"name": "old"},))
    listing = await read_listing(
        PagedChild(second_page).request, handshake("tools"), LOG, known=known
    )
    assert listing == known
    failed: list[str] = []
    asked = PagedChild(second_page).request
    first = await read_listing(asked, handshake("tools"), LOG, failed=failed.append)
    assert first == Listing(tools=({"name": "half"},))
    assert failed == ["tools/list"]


@pytest.mark.parametrize("error", [SilentError("no answer"), GoneError("gone")])
async def test_a_child_that_does_not_answer_is_an_error(error: Exception) -> None:
    def silent(method: str, params: JsonObject) -> JsonObject:
        raise error

    with pytest.raises(type(error)):
        await read_listing(PagedChild(silent).request, handshake("tools"), LOG)


async def test_no_more_entries_are_read_than_clients_can_be_shown_in_time() -> None:
    tools: list[Json] = [{"name": "t"}] * 1500

    def endless(method: str, params: JsonObject) -> JsonObject:
        return {"tools": tools, "nextCursor": f"{params.get('cursor', '')}+"}

    asked = PagedChild(endless)
    with capture_logs() as logs:
        listing = await read_listing(asked.request, handshake("tools"), LOG)
    assert len(listing.tools) == MAX_ENTRIES
    assert len(asked.asked) == MAX_ENTRIES // 1500 + 1
    assert [(line["event"], line["entries"]) for line in logs] == [("listing cut off", MAX_ENTRIES)]


async def test_a_child_that_lists_errors_for_ever_is_logged_at_a_limited_rate() -> None:
    def failing(method: str, params: JsonObject) -> JsonObject:
        raise RpcError.received({"code": INTERNAL_ERROR, "message": "E" * 200_000})

    log = ChildLog("files", lambda: 0.0)
    with capture_logs() as logs:
        for _ in range(1000):
            await read_listing(PagedChild(failing).request, handshake("tools"), log)
    assert 0 < sum(len(repr(line)) for line in logs) < 2 * BYTES


async def test_a_tool_that_is_nested_too_deeply_is_left_out_alone() -> None:
    deep = b'{"a":' * 200 + b"1" + b"}" * 200
    page = Raw(b'{"nextCursor":"n","tools":[{"name":"a"},{"name":"b","inputSchema":%b}]}' % deep)
    with capture_logs() as logs:
        found = await readable(page, "tools/list", LOG)
    assert found == {"nextCursor": "n", "tools": [{"name": "a"}]}
    assert [line["name"] for line in logs] == ['"b"']


def long_page(tools: bytes) -> Raw:
    return Raw(b'{"tools":%b,"_meta":{"note":"%b"}}' % (tools, b"x" * LARGE))


async def test_a_long_list_is_read_between_the_turns_of_others() -> None:
    count, turns = 20 * AT_ONCE, 0
    page = long_page(b"[%b]" % b",".join(b'{"name":"t%d"}' % number for number in range(count)))

    async def others() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        found = await readable(page, "tools/list", LOG)
        assert found["tools"] == [{"name": f"t{number}"} for number in range(count)]
        tasks.cancel_scope.cancel()
    assert turns > count // AT_ONCE // 2


@pytest.mark.parametrize("listed", [b"null", b"[]"])
async def test_a_long_page_may_list_nothing(listed: bytes) -> None:
    assert not (await readable(long_page(listed), "tools/list", LOG)).get("tools")


async def test_a_page_of_many_such_tools_is_not_read() -> None:
    deep = b'{"a":' * 200 + b"1" + b"}" * 200
    many = b",".join([b'{"name":"b","inputSchema":%b}' % deep] * (MAX_LEFT_OUT + 1))
    with pytest.raises(WireError, match="Nested deeper"):
        await readable(Raw(b'{"tools":[%b]}' % many), "tools/list", LOG)


@pytest.mark.parametrize("page", [b"[]", b'{"tools":5,"a":%b}', b'{"tools":[5],"a":%b}', b"{"])
async def test_a_page_that_cannot_be_read_otherwise_is_an_error(page: bytes) -> None:
    deep = b"[" * 200 + b"]" * 200
    with pytest.raises(WireError):
        await readable(Raw(page.replace(b"%b", deep)), "tools/list", LOG)
