from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator, Sequence
from urllib.request import getproxies

import anyio
import anyio.lowlevel
import httpx2
import pytest

from hub.children.remote.connect import paced_transport
from hub.jsonrpc.peer_conduct import LoopShare
from hub.system.connecting import (
    HostLookups,
    LookUp,
    addresses_of,
    first_connected,
    proxy_of,
    web_client,
)
from tests.kit.loops import all_tasks_blocked
from tests.server.http.auth.issuer import IssuerSite, site

TWO_FAMILIES = ["2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"]


class NameServer:
    """Answers once it is told to, with what it is told."""

    def __init__(self, answer: Sequence[str] | Exception = ("192.0.2.1",)) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.may_answer = threading.Event()

    def look_up(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        assert self.may_answer.wait(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_who_asks_during_a_lookup_gets_its_result_and_who_asks_later_another() -> None:
    names = NameServer()
    lookups, found = HostLookups(names.look_up), list[Sequence[str]]()

    async def ask() -> None:
        found.append(await lookups.addresses("far.example"))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
            await all_tasks_blocked()
            names.may_answer.set()
        assert found == [("192.0.2.1",)] * 5
        assert names.asked == ["far.example"]
        names.answer = ("192.0.2.2",)
        assert await lookups.addresses("far.example") == ("192.0.2.2",)


async def test_an_error_of_a_lookup_is_for_all_who_wait_and_for_nobody_later() -> None:
    names = NameServer(socket.gaierror(-2, "Name or service not known"))
    lookups, failed = HostLookups(names.look_up), list[str]()

    async def ask() -> None:
        with pytest.raises(OSError, match="not known"):
            await lookups.addresses("far.example")
        failed.append("not known")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
            await all_tasks_blocked()
            names.may_answer.set()
        names.answer = ("192.0.2.2",)
        assert await lookups.addresses("far.example") == ("192.0.2.2",)
    assert len(failed) == 2


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "fe80::1%lo"])
async def test_an_address_is_not_looked_up(address: str) -> None:
    assert await HostLookups(NameServer().look_up).addresses(address) == (address,)


async def test_names_that_nobody_answers_for_leave_the_loops_own_lookups_alone() -> None:
    names = NameServer()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(HostLookups(names.look_up).addresses, f"dead{number}.example")
            await all_tasks_blocked()
            assert len(names.asked) == 40
            assert await anyio.getaddrinfo("localhost", 80)
            tasks.cancel_scope.cancel()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "lookup")
    names.may_answer.set()


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Callable[[LookUp], None]:
    """Let a test give the addresses that the system's resolver finds for a host."""

    def give(look_up: LookUp) -> None:
        def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
            return [(0, 0, 0, "", (address, 0)) for address in look_up(host)]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return give


@pytest.fixture
def served() -> Generator[IssuerSite]:
    with site() as found:
        found.pages["/x"] = {"y": 1}
        yield found


async def test_a_web_client_connects_though_nobody_answers_for_other_names(
    resolver: Callable[[LookUp], None], served: IssuerSite
) -> None:
    dead = NameServer(socket.gaierror(-2, "Name or service not known"))

    async def ask(number: int) -> None:
        async with web_client(5) as http:
            with pytest.raises(httpx2.ConnectError):
                await http.get(f"http://dead{number}.example/x")

    resolver(lambda host: ["127.0.0.1"] if host == "alive.example" else dead.look_up(host))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks, web_client(5) as http:
            for number in (*range(40), 0):
                tasks.start_soon(ask, number)
            await all_tasks_blocked()
            url = served.url.replace("127.0.0.1", "alive.example")
            assert (await http.get(f"{url}/x")).json() == {"y": 1}
            dead.may_answer.set()
    assert sorted(dead.asked) == sorted(f"dead{number}.example" for number in range(40))


async def test_a_web_client_and_a_childs_go_through_the_proxy_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, served: IssuerSite
) -> None:
    monkeypatch.setenv("HTTP_PROXY", served.url)
    async with web_client(5) as http:
        await http.get("http://far.example/x")
    async with paced_transport(LoopShare()) as transport:
        await transport.handle_async_request(httpx2.Request("GET", "http://far.example/y"))
    assert served.asked == ["http://far.example/x", "http://far.example/y"]


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({"HTTPS_PROXY": "http://proxy:1"}, "https://far.example/x", "http://proxy:1"),
        ({"HTTPS_PROXY": "http://proxy:1"}, "http://far.example/x", None),
        ({"https_proxy": "proxy:1"}, "https://far.example/x", "http://proxy:1"),
        ({"ALL_PROXY": "http://proxy:1"}, "http://far.example/x", "http://proxy:1"),
        ({"ALL_PROXY": "http://proxy:1", "NO_PROXY": "example"}, "http://far.example/x", None),
        ({"ALL_PROXY": "http://proxy:1", "no_proxy": "far:8"}, "http://far:8/x", None),
        ({"ALL_PROXY": "http://proxy:1"}, "http://localhost:8/x", None),
        ({"ALL_PROXY": "http://proxy:1"}, "http://127.0.0.5/x", None),
        ({"ALL_PROXY": "http://proxy:1"}, "http://[::1]/x", None),
        ({"ALL_PROXY": "socks5://proxy:1"}, "http://far.example/x", None),
        ({"ALL_PROXY": "http://"}, "http://far.example/x", None),
        ({"ALL_PROXY": "http://proxy:x"}, "http://far.example/x", None),
        ({"ALL_PROXY": "https://proxy"}, "http://far.example/x", "https://proxy"),
    ],
)
def test_a_proxy_is_named_for_other_machines_and_not_where_it_speaks_no_http(
    environment: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in getproxies():
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = proxy_of(httpx2.URL(url))
    assert (found and str(found.url)) == proxy


async def test_a_socks_proxy_breaks_no_web_client(
    monkeypatch: pytest.MonkeyPatch, served: IssuerSite
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example:1")
    async with web_client(5) as http:
        assert (await http.get(f"{served.url}/x")).json() == {"y": 1}


def test_the_second_address_is_of_the_other_family(resolver: Callable[[LookUp], None]) -> None:
    first, second, other, last = TWO_FAMILIES
    resolver({"two.example": TWO_FAMILIES, "one.example": [other, other, last]}.__getitem__)
    assert addresses_of("two.example") == [first, other, second, last]
    assert addresses_of("one.example") == [other, last]


class AddressConnection:
    """A connection to one address, which opens once it may."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_closed = False

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.is_closed = True


class Network:
    """Connects to some addresses, refuses others, and says nothing for the rest."""

    def __init__(self, *, open_: str = "", refused: str = "") -> None:
        self._open, self._refused = open_, refused
        self.tried: list[str] = []

    async def connect(self, address: str) -> AddressConnection:
        self.tried.append(address)
        if address in self._refused:
            raise ConnectionRefusedError(address)
        if address not in self._open:
            await anyio.sleep_forever()
        return AddressConnection(address)

    async def first_of(self, addresses: str, stagger: float = 10.0) -> str:
        with anyio.fail_after(20):
            return (await first_connected(addresses, self.connect, OSError, stagger)).address


async def test_addresses_are_tried_in_turn() -> None:
    network = Network(open_="bc", refused="a")
    assert await network.first_of("abc") == "b"
    assert network.tried == ["a", "b"]
    assert await Network(open_="c").first_of("abc", stagger=0.01) == "c"
    with pytest.raises(ConnectionRefusedError, match=r"^a$"):
        await Network(refused="ab").first_of("ab")


async def test_only_one_of_the_connections_stays_open() -> None:
    opened: list[AddressConnection] = []
    both = anyio.Event()

    async def connect(address: str) -> AddressConnection:
        opened.append(AddressConnection(address))
        if len(opened) == 2:
            both.set()
        with anyio.CancelScope(shield=True):
            await both.wait()
        return opened[-1] if address == "b" else opened[0]

    with anyio.fail_after(20):
        kept = await first_connected("ab", connect, OSError, 0.01)
    assert [one.is_closed for one in opened] == [one is not kept for one in opened]


async def test_who_is_cancelled_as_connections_open_leaves_none_open() -> None:
    opened: list[AddressConnection] = []
    two, may_open = anyio.Event(), anyio.Event()

    async def connect(address: str) -> AddressConnection:
        opened.append(AddressConnection(address))
        if len(opened) == 2:
            two.set()
        with anyio.CancelScope(shield=True):
            await may_open.wait()
        return opened[0 if address == "a" else 1]

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first_connected, "ab", connect, OSError, 0.01)
            await two.wait()
            tasks.cancel_scope.cancel()
            may_open.set()
    assert [one.is_closed for one in opened] == [True, True]


@pytest.mark.parametrize(
    ("names", "error", "said"),
    [
        (NameServer(), httpx2.ConnectTimeout, "its name server does not answer"),
        (NameServer(socket.gaierror(-2, "not known")), httpx2.ConnectError, "not known"),
    ],
)
async def test_a_request_says_if_its_host_has_no_address(
    names: NameServer, error: type[Exception], said: str, resolver: Callable[[LookUp], None]
) -> None:
    resolver(names.look_up)
    patience = 0.05
    if isinstance(names.answer, Exception):
        names.may_answer.set()
        patience = 20
    transport, limits = paced_transport(LoopShare()), {"timeout": {"connect": patience}}
    asked = httpx2.Request("GET", "http://far.example/", extensions=limits)
    with anyio.fail_after(20):
        async with transport:
            with pytest.raises(error, match=said):
                await transport.handle_async_request(asked)
    names.may_answer.set()
