from __future__ import annotations

import random
import string
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from hub.server.http.adoption import LASTS, MAX_ID, SKEW, SessionIds
from hub.sessions.client import Client
from hub.system.sealing import RememberedIds, Sealer, SealingSecrets
from hub.values import Json, JsonObject
from tests.kit.fakes import FakeClock

SECRETS = SealingSecrets((b"one" * 12,))
CLIENT = Client(
    "legacy",
    "2025-11-25",
    {"roots": {"listChanged": True}, "elicitation": {"form": {}}, "sampling": {}},
    {"name": "tester", "version": "1.2"},
)


class HubWithIds:
    """The ids of one process; `next` is a process after it."""

    def __init__(self, clock: FakeClock | None = None, path: Path | None = None) -> None:
        self.clock = clock or FakeClock()
        self.clock.now = 1_800_000_000.0 if clock is None else clock.now
        self.path = path

    def ids(self, *, replica: str | None = None, adopts: tuple[str, ...] = ()) -> SessionIds:
        ended = RememberedIds(self.clock, self.path)
        return SessionIds(SECRETS, self.clock, ended=ended, replica=replica, adopts=adopts)


def test_the_next_process_knows_the_client() -> None:
    hub = HubWithIds()
    id_ = hub.ids().made_for(CLIENT, "token")
    assert hub.ids().opened(id_, "token") == CLIENT
    assert id_ != hub.ids().made_for(CLIENT, "token")


def test_ids_need_no_library_that_takes_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    ids = HubWithIds().ids()
    assert ids.opened(ids.made_for(CLIENT, "token"), "token") == CLIENT


def test_an_id_is_short_visible_ascii() -> None:
    id_ = HubWithIds().ids(replica="a" * 32).made_for(CLIENT, "token")
    assert set(id_) <= set(string.ascii_letters + string.digits + "-_.")
    assert len(id_) < 400
    assert id_.startswith("a" * 32 + ".")


@pytest.mark.parametrize("size", [10, 300, 1000, 100_000])
def test_an_id_stays_short_whatever_a_client_declares(size: int) -> None:
    hub = HubWithIds()
    apps: JsonObject = {"io.modelcontextprotocol/ui": {"mimeTypes": ["x"]}}
    extensions: JsonObject = {**apps, "other": {"x": "z" * size}}
    declared: JsonObject = {"sampling": {"x": "y" * size}, "other": "z" * size}
    large = replace(
        CLIENT,
        capabilities={**CLIENT.capabilities, **declared, "extensions": extensions},
        info={"name": "n" * size, "version": "v" * size, "icons": ["i" * size]},
    )
    id_ = hub.ids(replica="a" * 32).made_for(large, "local")
    assert len(id_) <= MAX_ID
    found = hub.ids(replica="a" * 32).opened(id_, "local")
    if size > 500:
        assert found is None
    else:
        assert found is not None
        assert found.capabilities["sampling"] == {"x": "y" * size}
        assert found.capabilities["extensions"] == apps
        assert "other" not in found.capabilities


@pytest.mark.parametrize("value", ["\ud800", {"deep": "\udfff"}])
def test_what_cannot_be_written_makes_an_id_that_nobody_adopts(value: Json) -> None:
    hub = HubWithIds()
    odd = replace(CLIENT, capabilities={"sampling": value})
    assert hub.ids().opened(hub.ids().made_for(odd, "local"), "local") is None


def test_a_handshake_that_fails_gets_an_id_that_nobody_adopts() -> None:
    hub = HubWithIds()
    assert hub.ids().opened(hub.ids().made_for(None, "local"), "local") is None


def test_one_of_a_thousand_forged_ids_is_adopted_never() -> None:
    hub = HubWithIds()
    ids = hub.ids(replica="a")
    good = ids.made_for(CLIENT, "token")
    letters = string.ascii_letters + string.digits + "-_.=+/ é"
    rng = random.Random(20)  # noqa: S311 - the same ones each time
    forged: set[str] = set()
    while len(forged) < 1000:
        at, other = rng.randrange(len(good)), rng.choice(letters)
        forged |= {
            good[:at] + other + good[at + 1 :],
            good[:at] + good[at + 1 :],
            good[:at] + other + good[at:],
        } - {good}
    forged |= {"", ".", "a.", good + good, good * 100, good.lower(), good.upper(), f" {good}"}
    assert [id_ for id_ in forged if ids.opened(id_, "token") is not None] == []
    assert ids.opened(good, "token") is not None


def test_an_id_is_of_one_principal() -> None:
    hub = HubWithIds()
    id_ = hub.ids().made_for(CLIENT, "token")
    assert hub.ids().opened(id_, "local") is None


def test_only_own_sessions_and_those_that_are_taken_over_are_adopted() -> None:
    hub = HubWithIds()
    id_ = hub.ids(replica="a").made_for(CLIENT, "token")
    plain = hub.ids().made_for(CLIENT, "token")
    assert hub.ids(replica="a").opened(id_, "token") == CLIENT
    assert hub.ids(replica="b").opened(id_, "token") is None
    assert hub.ids(replica="b").opened(id_.replace("a.", "b."), "token") is None
    assert hub.ids().opened(id_, "token") is None
    assert hub.ids().opened(id_.removeprefix("a."), "token") is None
    assert hub.ids(replica="b", adopts=("a",)).opened(id_, "token") == CLIENT
    assert hub.ids(replica="b", adopts=("a",)).opened(plain, "token") is None


def test_an_id_expires_and_is_not_from_the_future() -> None:
    hub = HubWithIds()
    id_ = hub.ids().made_for(CLIENT, "token")
    hub.clock.now -= SKEW
    assert hub.ids().opened(id_, "token") is not None
    hub.clock.now -= 1
    assert hub.ids().opened(id_, "token") is None
    hub.clock.now += SKEW + LASTS
    assert hub.ids().opened(id_, "token") is not None
    hub.clock.now += 1
    assert hub.ids().opened(id_, "token") is None


def test_an_ended_id_is_not_opened_again_in_the_next_process_neither(tmp_path: Path) -> None:
    hub = HubWithIds(path=tmp_path / "ended")
    ids = hub.ids()
    id_, other = ids.made_for(CLIENT, "token"), ids.made_for(CLIENT, "token")
    ids.end("forged", "token")
    ids.end(id_, "token")
    assert ids.opened(id_, "token") is None
    assert hub.ids().opened(id_, "token") is None
    assert hub.ids().opened(other, "token") == CLIENT


@pytest.mark.parametrize("plain", [b"[]", b"[1,2,3,4,5]", b'[1,9999999999,"2031-01-01",{},{}]'])
def test_the_id_of_another_version_of_the_hub_is_none(plain: bytes) -> None:
    hub = HubWithIds()
    sealed = Sealer(SECRETS, "http session").seal(plain, "\ntoken")
    assert hub.ids().opened(sealed, "token") is None
