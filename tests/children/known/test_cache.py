from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.catalog.merge import KnownCatalog, Listing
from hub.children.known import cache as cache_module
from hub.children.known.cache import (
    CatalogCache,
    decoded_entry,
    encoded_entry,
    entry_name,
    server_entry_name,
)
from hub.children.slot import ClientOfKey, key_of
from hub.jsonrpc.exact_json import decode_strict, encode
from hub.launch.plan import LaunchTemplate, plan
from hub.roots.roots import EMPTY
from hub.system.private_file import CacheFiles, UnfitEntryError
from hub.values import JsonObject, SessionKey, object_or_empty
from tests.kit.fakes import ECHO, READ
from tests.kit.loops import all_tasks_blocked
from tests.kit.rigs import launched, roots_at
from tests.kit.trees import files_in

ECHOING, READING = KnownCatalog(Listing((ECHO,))), KnownCatalog(Listing((READ,)))


class CountedFiles(CacheFiles):
    """Files that count how often they are written."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.written: list[str] = []

    def write(self, name: str, content: bytes) -> None:
        super().write(name, content)
        self.written.append(name)


@asynccontextmanager
async def cached(directory: Path) -> AsyncGenerator[tuple[CatalogCache, CountedFiles]]:
    files = CountedFiles(directory)
    made = CatalogCache(files)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.write)
            await all_tasks_blocked()
            yield made, files
            tasks.cancel_scope.cancel()


async def test_what_is_kept_is_found_at_once_and_by_the_next_process(tmp_path: Path) -> None:
    async with cached(tmp_path) as (cache, _):
        assert cache.find("a") is None
        cache.keep("a", ECHOING)
        assert cache.find("a") == ECHOING
    async with cached(tmp_path) as (cache, _):
        assert cache.find("a") == ECHOING


async def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    async with cached(tmp_path) as (cache, files):
        cache.keep("a", ECHOING)
    assert files.written == ["a"]
    async with cached(tmp_path) as (cache, files):
        cache.keep("a", replace(ECHOING, listing=Listing((dict(ECHO),))))
    assert files.written == []
    async with cached(tmp_path) as (cache, files):
        cache.keep("a", READING)
        cache.keep("a", READING)
    assert files.written == ["a"]


async def test_a_broken_file_is_ignored_with_one_line_and_written_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"nonsense")
    (tmp_path / "a").chmod(0o600)
    async with cached(tmp_path) as (cache, _):
        with capture_logs() as logs:
            assert cache.find("a") is None
            assert cache.find("a") is None
            cache.keep("a", ECHOING)
        assert [entry["event"] for entry in logs] == ["cached file ignored"]
    assert CatalogCache(CacheFiles(tmp_path)).find("a") == ECHOING


async def test_memory_is_bounded_and_the_disk_has_the_rest(tmp_path: Path) -> None:
    async with cached(tmp_path) as (cache, _):
        for number in range(cache_module.MAX_KEPT + 1):
            cache.find(f"none {number}")
        cache.keep("a", ECHOING)
        large = KnownCatalog(Listing(({"name": "t", "text": "x" * 2_000_000},)))
        for number in range(cache_module.MAX_KEPT_BYTES // 2_000_000 + 1):
            cache.keep(f"large {number}", large)
            await all_tasks_blocked()
        kept = cache._kept  # pyright: ignore[reportPrivateUsage] - to see that it is bounded
        assert "a" not in kept
        assert len(kept) < 20
    assert cache.find("a") == ECHOING


class HangingFiles(CacheFiles):
    """Files on a disk that does not answer."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked, self.answers = threading.Event(), threading.Event()
        self.keeps_the_hub_alive = True

    def write(self, name: str, content: bytes) -> None:
        self.keeps_the_hub_alive = not threading.current_thread().daemon
        self.asked.set()
        assert self.answers.wait(10)


async def test_a_disk_that_hangs_keeps_no_hub_from_ending_and_takes_no_endless_memory() -> None:
    files = HangingFiles()
    cache = CatalogCache(files, last_writes=0.05)
    large = KnownCatalog(Listing(({"name": "t", "text": "x" * 2_000_000},)))
    with anyio.fail_after(20), capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cache.write)
            for number in range(cache_module.MAX_KEPT_BYTES // 2_000_000 + 5):
                cache.keep(f"{number}", large)
                await all_tasks_blocked()
            unwritten = cache._unwritten  # pyright: ignore[reportPrivateUsage] - as above
            assert sum(map(len, unwritten.values())) <= cache_module.MAX_KEPT_BYTES
            await anyio.to_thread.run_sync(files.asked.wait)
            tasks.cancel_scope.cancel()
    assert not files.keeps_the_hub_alive
    assert [entry["event"] for entry in logs] == ["cache not written: its disk does not answer"]
    files.answers.set()


async def test_small_entries_that_wait_for_the_disk_are_bounded_in_number() -> None:
    files = HangingFiles()
    cache = CatalogCache(files, last_writes=0.05)
    for number in range(cache_module.MAX_KEPT + 5):
        cache.keep(f"{number}", ECHOING)
    unwritten = cache._unwritten  # pyright: ignore[reportPrivateUsage] - as above
    assert len(unwritten) == cache_module.MAX_KEPT
    assert f"{cache_module.MAX_KEPT + 4}" in unwritten


async def test_caches_that_write_at_once_leave_a_whole_entry(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:

        async def keep(known: KnownCatalog) -> None:
            for number in range(20):
                async with cached(tmp_path) as (cache, _):
                    cache.keep("a", replace(known, instructions=f"{number}" * 10_000))

        for known in (ECHOING, READING) * 3:
            tasks.start_soon(keep, known)
    found = CatalogCache(CacheFiles(tmp_path)).find("a")
    assert found is not None
    assert found.listing in [ECHOING.listing, READING.listing]
    assert files_in(tmp_path) == ["a"]


def test_an_entry_is_for_all_that_a_listing_may_depend_on(tmp_path: Path) -> None:
    session = SessionKey("s")
    user = ClientOfKey(session, session, "alice", {})
    spec = launched("a", "${TOKEN}", share="auto", catalog_id="f")
    assert isinstance(spec.target, LaunchTemplate)
    template = spec.target
    here = roots_at(tmp_path)

    base = key_of(spec, plan(template, here, {"TOKEN": "t"}), here, user)
    same = key_of(
        spec,
        plan(template, here, {"TOKEN": "t"}),
        here,
        ClientOfKey(SessionKey("z"), SessionKey("z"), "alice", {}),
    )
    assert entry_name(spec, base) == entry_name(spec, same)
    others = [
        replace(base, principal="bob"),
        replace(base, roots=EMPTY),
        replace(base, asks=b'{"sampling":{}}'),
        replace(base, unknown=True),
        replace(base, plan=plan(template, here, {"TOKEN": "u"})),
        replace(base, plan=plan(template, EMPTY, {"TOKEN": "t"})),
        replace(base, plan=None),
    ]
    names = {entry_name(spec, key) for key in (base, *others)}
    names |= {entry_name(launched(name, catalog_id=id_), base) for name, id_ in ("ag", "bf")}
    assert len(names) == len(others) + 3
    assert all(len(name) == 64 and name.isalnum() for name in names)


def test_a_servers_own_entry_is_each_principals() -> None:
    spec = launched("a")
    names = {server_entry_name(spec, whose) for whose in ("alice", "bob")}
    assert len({*names, server_entry_name(launched("a", catalog_id="f"), "alice")}) == 3


KNOWN = KnownCatalog(
    Listing((ECHO, READ), ({"uri": "x:1"},), ({"uriTemplate": "x:{y}"},), ({"name": "ask"},)),
    era="legacy",
    version="2025-11-25",
    info={"name": "fake", "version": "1"},
    capabilities={"tools": {"listChanged": True}},
    instructions="Use me.",
)


def content(known: KnownCatalog = KNOWN) -> bytes:
    made = encoded_entry("n", known)
    assert made is not None
    return made


def signed(body: bytes, head: bytes = b"roots-hub catalog 1") -> bytes:
    return b"%b %b\n%b" % (head, hashlib.sha256(body).hexdigest().encode(), body)


def changed(**fields: object) -> bytes:
    body = json.loads(content().partition(b"\n")[2])
    return signed(json.dumps({**body, **fields}).encode())


def test_a_catalog_comes_out_as_it_went_in() -> None:
    assert decoded_entry("n", content()) == KNOWN
    late = KnownCatalog(None)
    assert decoded_entry("n", content(late)) == late


def test_numbers_keep_their_spelling() -> None:
    tool: JsonObject = object_or_empty(decode_strict(b'{"name":"t","maximum":1.10,"big":1E400}'))
    read = decoded_entry("n", content(KnownCatalog(Listing((tool,))))).listing
    assert read is not None
    assert encode(read.tools[0]) == b'{"name":"t","maximum":1.10,"big":1E400}'


BROKEN = {
    "empty": b"",
    "no checksum": content().partition(b"\n")[2],
    "another format": signed(b"{}", b"roots-hub catalog 2"),
    "cut off": content()[:-10],
    "one letter changed": content().replace(b"echo", b"ecko", 1),
    "no JSON": signed(b"{"),
    "not UTF-8": signed(b'"\xff"'),
    "nested too deep": signed(b"[" * 10_000 + b"]" * 10_000),
    "a repeated key": signed(b'{"name":"n","name":"n"}'),
    "no object": signed(b"[]"),
    "of another name": changed(name="m"),
    "no lists": changed(listing=1),
    "a list missing": changed(listing={"tools": []}),
    "an entry that is no object": changed(
        listing={"tools": [1], "resources": [], "templates": [], "prompts": []}
    ),
    "a list that is none": changed(
        listing={"tools": {}, "resources": [], "templates": [], "prompts": []}
    ),
    "instructions that are no text": changed(instructions=1),
    "info that is no object": changed(info="x"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_whatever_else_is_in_a_file_is_refused(case: str) -> None:
    with pytest.raises(UnfitEntryError):
        decoded_entry("n", BROKEN[case])
