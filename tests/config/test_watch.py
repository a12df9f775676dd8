"""What a running hub makes of a config that changes."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from hub.config import watch
from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import HubConfig
from hub.config.records import TrustRecord, digest_of
from hub.config.reload.writable import PathLookup, WritablePlace
from hub.config.watch import UNTRUSTED, ConfigWatch, Watched, WritableBy, watching
from hub.errors import ConfigError
from hub.paths.resolve import Flavour
from hub.protocol.http_headers import token_hash
from hub.sessions.operator import ConfigFile, ConfigState
from hub.system.machine import OsDisk
from tests.kit.loops import all_tasks_blocked, in_time, virtual_time
from tests.kit.trees import plant
from tests.kit.worlds import share

SERVERS = "servers: {files: {command: files-server}}\n"
IN_A_ROOT = "the file lies in a root of a client: "


class Running:
    """A hub that takes configs over: `taken` has them. `places` are what calls may write."""

    def __init__(  # noqa: PLR0913 - kinds of hubs
        self,
        top: Path,
        text: str,
        *,
        file: str = "hub.yaml",
        places: tuple[str, ...] = (),
        is_found: bool = False,
        reads_secrets: bool = False,
    ) -> None:
        self.top, self.file, self.places = top, top / file, places
        self.file.write_text(text)
        self.trust = TrustRecord(top / "state/trusted.json")
        digest = digest_of(self.file) if is_found else None
        if digest is not None:
            self.trust.add(self.file, digest)
        variables = {"SET": "1", "PATH": os.environ["PATH"]}
        self.context = LoadContext(top, str(top), variables, digest, reads_secrets)
        self.running = load_config(file, self.context).config
        self.known = ConfigFile(file)
        self.taken: list[HubConfig] = []
        self.changed = anyio.Event()
        self.refuses: Exception | None = None
        self.watch = self.watch_with(self.take)

    def watch_with(self, take: watch.Take, watched: Watched | None = None) -> ConfigWatch:
        lookup = PathLookup(OsDisk(), Flavour.POSIX, str(self.top))
        by = WritableBy(self.known, lookup, self._places, self.trust)
        found = watched or Watched.now(self.file.name, self.context)
        return ConfigWatch(found, self.running, take, by)

    def _places(self) -> list[WritablePlace]:
        paths = (*self.places, *self.known.granted)
        return [WritablePlace(str(self.top / path), "a root of a client") for path in paths]

    async def take(self, config: HubConfig) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.taken.append(config)
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    async def becomes(self, text: str, *, confirmed: bool = False) -> list[Mapping[str, object]]:
        """Write the file, reload it, and return the log."""
        self.file.write_text(text)
        return await self.reloaded(confirmed=confirmed)

    async def reloaded(self, *, confirmed: bool = False) -> list[Mapping[str, object]]:
        with capture_logs() as logged:
            self.report = await self.watch.take_over(confirmed=confirmed)
        return [*logged]

    async def until_taken(self, count: int) -> None:
        with in_time():
            while len(self.taken) < count:
                await self.changed.wait()


def config(roots: str = "{}", rest: str = SERVERS) -> str:
    return f"version: 1\nroots: {roots}\n{rest}"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/", "c/")


# What is taken over


async def test_a_changed_config_is_taken_over(top: Path) -> None:
    at = Running(top, config())
    (line,) = await at.becomes(config("{deny: [x], fallback: [a]}", f"guard: report\n{SERVERS}"))
    (taken,) = at.taken
    assert (taken.guard.mode, taken.roots.deny) == ("report", ("x",))
    keys = ("roots.fallback", "roots.deny", "guard.mode")
    assert line == {
        "event": "config reloaded",
        "config": "hub.yaml",
        "keys": [*keys],
        "log_level": "info",
    }
    assert at.report.taken == keys
    assert at.report.lines() == [f"Taken over from hub.yaml: {', '.join(keys)}"]
    assert at.known.state == ConfigState("hub.yaml")


async def test_a_file_without_news_is_not_taken_over(top: Path) -> None:
    at = Running(top, config())
    assert await at.becomes(f"{config()}# a comment\n") == []
    assert at.taken == []
    assert at.report.lines() == ["hub.yaml has nothing new."]


async def test_a_reload_without_news_says_what_was_taken_over_before_it(top: Path) -> None:
    at = Running(top, config())
    await at.becomes(config("{deny: [x]}"))
    await at.reloaded()
    assert at.report.lines() == ["hub.yaml has nothing new.", "Taken over before: roots.deny"]


async def test_variables_are_those_of_the_start(top: Path) -> None:
    servers = "servers: {{s: {{command: s, env: {{A: '{}'}}}}, t: {{command: t}}}}\n"
    at = Running(top, config(rest=servers.format("")))
    await at.becomes(config(rest=servers.format("${SET}")))
    assert "s" in at.taken[-1].servers
    lines = await at.becomes(config(rest=servers.format("${UNSET}")))
    assert [*at.taken[-1].servers] == ["t"]
    assert [one.name for one in at.taken[-1].left_out] == ["s"]
    assert lines[0]["keys"] == ["servers.s"]


async def test_a_clients_own_config_is_reloaded(top: Path) -> None:
    servers = '{{"mcpServers": {{"s": {{"command": "s", "args": ["{}"]}}}}}}'
    at = Running(top, servers.format("x"), file="mcp.json")
    await at.becomes(servers.format("y"))
    assert at.report.taken == ("servers.s.args",)
    await at.becomes('{"mcpServers": {"s": {"command": "s"}, "u": {"command": 1}}}')
    assert at.report.taken == ("servers.s.args", "servers.u")
    assert [one.name for one in at.taken[-1].left_out] == ["u"]


async def test_what_needs_a_restart_is_told_once(top: Path) -> None:
    at = Running(top, config())
    text = config(rest=f"listen: {{port: 1}}\n{SERVERS}")
    (line,) = await at.becomes(text)
    assert line["event"] == "config changed: needs a restart"
    assert line["keys"] == ["listen.port"]
    assert (at.taken, at.known.state.restart) == ([], ("listen.port",))
    assert at.report.lines() == ["After a restart of the hub: listen.port"]
    lines = await at.becomes(text.replace("{}", "{fallback: [a]}"))
    assert [line["event"] for line in lines] == ["config reloaded"]
    assert at.taken[-1].listen.port == at.running.listen.port
    await at.becomes(config("{fallback: [a]}"))
    assert at.known.state == ConfigState("hub.yaml")


# What waits


async def test_where_calls_may_write_the_file_what_loosens_waits(top: Path) -> None:
    at = Running(top, config(), places=(".",))
    two = "servers: {files: {command: other}, more: {command: more}}\n"
    lines = await at.becomes(config("{deny: [x]}", two))
    assert [one["event"] for one in lines] == [
        "config reloaded",
        *["config changed: this waits for `roots-hub reload`"] * 2,
    ]
    assert lines[1]["key"] == "servers.files.command"
    assert lines[1]["because"] == f"{IN_A_ROOT}{top}"
    assert at.taken[-1].roots.deny == ("x",)
    assert at.taken[-1].servers == at.running.servers
    assert at.report.lines() == [
        "Taken over from hub.yaml: roots.deny",
        f"Waiting for `roots-hub reload`, as {IN_A_ROOT}{top}:",
        "  servers.files.command: it would run something else, or otherwise",
        "  servers.more: it would be started or reached for the first time",
    ]
    assert at.known.state.waiting == ("servers.files.command", "servers.more")
    assert await at.reloaded() == []  # all is told already


async def test_the_user_takes_over_what_waits(top: Path) -> None:
    at = Running(top, config(), places=(".",))
    await at.becomes(config(rest=f"guard: off\n{SERVERS}"))
    assert at.taken == []
    (line,) = await at.reloaded(confirmed=True)
    assert (line["event"], line["keys"]) == ("config reloaded", ["guard.mode"])
    assert at.taken[-1].guard.mode == "off"
    assert at.known.state == ConfigState("hub.yaml")
    assert await at.reloaded() == []


async def test_what_is_taken_back_waits_no_more(top: Path) -> None:
    at = Running(top, config(), places=(".",))
    await at.becomes(config(rest=f"guard: off\n{SERVERS}"))
    await at.becomes(config())
    assert (at.taken, at.known.state) == ([], ConfigState("hub.yaml"))


async def test_a_root_of_a_client_that_has_gone_counts(top: Path) -> None:
    at = Running(top, config())
    at.known.grant(share(top / "a"))
    await at.becomes(config(rest=f"guard: report\n{SERVERS}"))
    assert len(at.taken) == 1
    at.known.grant(share(top))
    at.known.grant(share(top / "b"))
    await at.becomes(config(rest=f"guard: off\n{SERVERS}"))
    assert at.known.state.waiting == ("guard.mode",)


async def test_more_roots_than_are_remembered_count(top: Path) -> None:
    at = Running(top, config())
    at.known = ConfigFile("hub.yaml", max_granted=1)
    at.watch = at.watch_with(at.take)
    for folder in ("a", "b"):
        at.known.grant(share(top / folder))
    await at.becomes(config(rest=f"guard: off\n{SERVERS}"))
    assert at.known.state.waiting == ("guard.mode",)
    assert at.report.because == "clients have shared more folders than the hub remembers"


async def test_of_a_file_that_run_found_another_text_waits_until_the_user_agrees(
    top: Path,
) -> None:
    at = Running(top, config(), is_found=True)
    text = config("{deny: [x]}", f"guard: off\n{SERVERS}")
    await at.becomes(text)
    assert at.taken[-1].roots.deny == ("x",)
    assert (at.known.state.waiting, at.report.because) == (("guard.mode",), UNTRUSTED)
    assert not at.trust.has(at.file, digest_of(at.file))
    await at.reloaded(confirmed=True)
    assert at.taken[-1].guard.mode == "off"
    assert at.trust.has(at.file, digest_of(at.file))


async def test_a_text_that_the_user_has_agreed_to_elsewhere_is_taken_over(top: Path) -> None:
    at = Running(top, config(), is_found=True)
    at.file.write_text(config(rest=f"guard: off\n{SERVERS}"))
    at.trust.add(at.file, digest_of(at.file))
    await at.reloaded()
    assert at.taken[-1].guard.mode == "off"


async def test_a_record_that_cannot_be_written_stops_nothing(top: Path) -> None:
    at = Running(top, config(), is_found=True)
    (top / "blocked").write_text("")
    at.trust = TrustRecord(top / "blocked/trusted.json")
    at.watch = at.watch_with(at.take)
    lines = await at.becomes(config(rest=f"guard: off\n{SERVERS}"), confirmed=True)
    assert at.taken[-1].guard.mode == "off"
    assert lines[0]["event"] == "the next start will ask about this config again"


# What is wrong


def said(line: Mapping[str, object]) -> str:
    return f"{line['where']}: {line['what']}"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (config("{fallbck: [b]}"), "hub.yaml: roots.fallbck: unknown key"),
        ("version: 1\nroots: [", "hub.yaml: line 2, column 9: "),
        ("", "hub.yaml: is empty"),
        ("\xff\xfe", "hub.yaml: is not UTF-8"),
    ],
)
async def test_a_config_that_does_not_load_changes_nothing(
    top: Path, text: str, where: str
) -> None:
    at = Running(top, config())
    at.file.write_bytes(text.encode("latin-1"))
    (line,) = await at.reloaded()
    assert (line["log_level"], at.taken) == ("error", [])
    assert said(line).startswith(where)
    assert line["fix"]
    assert at.known.state.error is not None
    assert at.known.state.error.startswith(where)
    first, second, *_ = at.report.lines()
    assert first == "Nothing was taken over: the config that was in force stays."
    assert second.startswith(where)
    assert await at.reloaded() == []  # said once
    assert [said(one) for one in await at.reloaded(confirmed=True)] == [said(line)]
    (line,) = await at.becomes(config())
    assert line["event"] == "config is in order again"
    assert at.known.state == ConfigState("hub.yaml")


def gone(file: Path) -> None:
    file.unlink()


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def large(file: Path) -> None:
    os.truncate(file, 1 << 30)


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (gone, "no such file"),
        (folder, "is a directory"),
        (pipe, "is not a file"),
        (large, "is larger than 1 MiB"),
    ],
)
@pytest.mark.parametrize("is_found", [False, True])
async def test_something_else_in_its_place_changes_nothing(
    top: Path, spoil: Callable[[Path], None], where: str, *, is_found: bool
) -> None:
    at = Running(top, config(), is_found=is_found)
    spoil(at.file)
    with anyio.fail_after(20):
        (line,) = await at.reloaded()
    assert said(line) == f"hub.yaml: {where}"
    assert at.taken == []


async def test_a_config_that_the_hub_cannot_take_changes_nothing(top: Path) -> None:
    at = Running(top, config())
    at.refuses = ConfigError("roots.access", "it is gone", "Name another path.")
    (line,) = await at.becomes(config("{deny: [x]}"))
    assert (said(line), line["fix"]) == ("roots.access: it is gone", "Name another path.")
    assert at.known.state.error == "roots.access: it is gone. Name another path."
    at.refuses = None
    await at.reloaded()
    assert at.report.taken == ("roots.deny",)


HASHES = {name: token_hash(f"of {name}") for name in "ab"}


def tokens(*names: str, rest: str = "", end: str = "2999-01-31") -> str:
    entries = [f"{{name: {one}, sha256: {HASHES[one]}, expires: {end}}}" for one in names]
    return config(rest=f"listen: {{tokens: [{', '.join(entries)}]}}\n{rest}{SERVERS}")


def counting(config: HubConfig) -> list[tuple[str, int]]:
    ends = ((one.name, one.expires) for one in config.listen.tokens)
    return [(name, 0 if end is None else end.year) for name, end in ends]


MISSING = "profiles: {p: {match: {tokens: [a]}}}\n"


@pytest.mark.parametrize("mistake", [MISSING, "gaurd: off\n", "linger: [3]\n"])
@pytest.mark.parametrize("confirmed", [False, True])
async def test_a_wrong_config_takes_tokens_out(top: Path, mistake: str, *, confirmed: bool) -> None:
    at = Running(top, tokens("a", "b", rest=MISSING if mistake == MISSING else ""))
    lines = await at.becomes(tokens("b", rest=f"guard: off\n{mistake}"), confirmed=confirmed)
    (taken,) = at.taken
    assert counting(taken) == [("b", 2999)]
    assert taken.guard.mode == "enforce"
    assert [line["log_level"] for line in lines] == ["error", "warning"]
    assert lines[1]["keys"] == ["listen.tokens"]
    first, *_ = at.report.lines()
    assert first == "Taken over: what is taken out of listen.tokens; nothing else."
    assert at.known.state.error is not None
    assert await at.reloaded() == []
    assert at.report.lines()[0] == first  # who asks after the hub has noticed is told as well
    await at.becomes(tokens("a", "b"))
    assert counting(at.taken[-1]) == [("a", 2999), ("b", 2999)]
    await at.becomes("listen: [")
    assert at.report.lines()[0].startswith("Nothing was taken over")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (tokens("a", "b", rest="gaurd: off\n"), None),
        (tokens("a", "b", rest="gaurd: off\n", end="2998-01-31"), [("a", 2998), ("b", 2998)]),
        (tokens("a", "b", rest="gaurd: off\n", end="3000-01-31"), None),
        # Without any token everybody would be let in.
        (tokens(rest="gaurd: off\n"), [("a", 1970), ("b", 1970)]),
        ("version: 1\ngaurd: off\n", [("a", 1970), ("b", 1970)]),
        # What it says of tokens cannot be told.
        ("version: 1\nlisten: {tokens: [{name: a}]}\n", None),
        ("version: 1\nlisten: {tokens: 1}\n", None),
        ("version: 1\nlisten: []\nservers: 1\n", None),
        ("version: 1\nlisten: [1]\n", None),
        ("version: 1\nlisten: [", None),
        ("", None),
        ("mcpServers: {a: {commnd: x}}\n", None),
    ],
)
async def test_a_wrong_config_adds_no_token_and_lets_nobody_in_without_one(
    top: Path, text: str, counts: list[tuple[str, int]] | None
) -> None:
    at = Running(top, tokens("a", "b"))
    await at.becomes(text)
    assert [counting(one) for one in at.taken] == ([] if counts is None else [counts])
    assert at.known.state.error is not None


def letting_in(listen: str) -> str:
    return config(rest=f"listen: {{{listen}}}\n{SERVERS}")


def issuers(*names: str, also: str = "") -> str:
    entries = [f"{{issuer: https://{one}.example{also}}}" for one in names]
    return f"auth: {{resource: https://hub.example/mcp, issuers: [{', '.join(entries)}]}}"


@pytest.mark.parametrize(
    ("before", "after", "token", "left"),
    [
        (f"token: one, {issuers('a', 'b')}", f"token: one, {issuers('b')}", "one", ["b"]),
        (f"token: one, {issuers('a')}", "token: one", "one", []),
        (f"token: one, {issuers('a')}", issuers("a"), None, ["a"]),
        (f"token: one, {issuers('a')}", f"token: two, {issuers('a')}", None, ["a"]),
        (f"token: one, {issuers('a')}", f"token: one, {issuers('c')}", "one", []),
        # Without any token everybody would be let in.
        ("token: one", "", None, []),
        ("token: one", "token: two", None, []),
        (issuers("a"), "", None, []),
        (issuers("a"), issuers("c"), None, []),
        (issuers("a"), issuers(), None, []),
        (f"token: one, {issuers('a')}", "", None, []),
    ],
)
async def test_a_wrong_config_takes_out_issuers_and_the_token_without_a_name(
    top: Path, before: str, after: str, token: str | None, left: list[str]
) -> None:
    at = Running(top, letting_in(before))
    await at.becomes(f"{letting_in(after)}gaurd: off\n")
    (taken,) = at.taken
    listen = taken.listen
    assert (listen.token and listen.token.get_secret_value()) == token
    names = [one.issuer for one in listen.auth.issuers] if listen.auth is not None else []
    assert names == [f"https://{one}.example" for one in left]
    assert listen.is_guarded
    assert {one.sha256 for one in listen.tokens} <= {"0" * 64}
    await at.becomes(letting_in(before))
    assert at.taken[-1].listen == at.running.listen


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("token: one", f"token: one, {issuers('a')}"),
        (f"token: one, {issuers('a')}", f"token: one, {issuers('a', 'b')}"),
        (f"token: one, {issuers('a')}", f"token: '${{NOT_SET}}', {issuers('a')}"),
        (f"token: one, {issuers('a')}", f"token: one, {issuers('a', also=', isuer: x')}"),
        (issuers("a", also=", claims: {team: [x]}"), issuers("a", also=", claims: {team: [x, y]}")),
    ],
)
async def test_a_wrong_config_adds_nobody_and_takes_out_nothing_that_it_does_not_say(
    top: Path, before: str, after: str
) -> None:
    at = Running(top, letting_in(before))
    await at.becomes(f"{letting_in(after)}gaurd: off\n")
    assert at.taken == []


async def test_files_with_tokens_are_beside_a_wrong_config(top: Path) -> None:
    plant(top, "etc/")
    (top / "etc/secret").write_text("of-the-file")
    kept = "tokens: [{name: c, token: '${file:secret}'}"
    text = letting_in(f"{kept}, {{name: a, sha256: {HASHES['a']}}}]")
    at = Running(top, text, file="etc/hub.yaml")
    at.watch = at.watch_with(at.take, Watched.now("etc/hub.yaml", at.context))
    await at.becomes(f"{letting_in(f'{kept}]')}gaurd: off\n")
    (taken,) = at.taken
    assert taken.listen.tokens == at.running.listen.tokens[:1]


async def test_where_the_hub_cannot_take_tokens_out_it_goes_on(top: Path) -> None:
    at = Running(top, tokens("a", "b"))
    for refusal in (ConfigError("roots.access", "it is gone", "Name another."), RecursionError()):
        at.refuses = refusal
        await at.becomes(tokens("b", rest="gaurd: off\n"))
        assert at.taken == []
        assert at.report.taken == ()
    at.refuses = None
    await at.reloaded()
    assert [counting(one) for one in at.taken] == [[("b", 2999)]]


async def test_an_error_of_the_hub_itself_ends_nothing(top: Path) -> None:
    at = Running(top, config())
    at.refuses = RecursionError()
    lines = await at.becomes(config("{deny: [x]}"))
    assert [line["log_level"] for line in lines] == ["error", "error"]
    assert at.known.state.error is not None


@pytest.mark.long
async def test_hundreds_of_edits_leave_nothing_behind(top: Path) -> None:
    at = Running(top, config(), places=(".",))
    texts = [config("{deny: [x]}"), config(rest=f"guard: off\n{SERVERS}"), "version: [", config()]
    before = configs_in_memory()  # other tests may have left some
    with capture_logs(), anyio.fail_after(90):
        for number in range(300):
            at.file.write_text(texts[number % 4])
            await at.watch.take_over()
            del at.taken[:]
    assert configs_in_memory() - before < 10


def configs_in_memory() -> int:
    gc.collect()
    return sum(isinstance(one, HubConfig) for one in gc.get_objects())


# When the file is looked at


@virtual_time
async def test_the_file_is_watched(top: Path) -> None:
    at = Running(top, config())
    async with watching(at.watch, anyio.sleep_forever):
        other = top / "other.yaml"
        other.write_text(config("{deny: [x]}"))
        other.replace(at.file)
        await at.until_taken(1)
        at.file.write_text(config("{deny: [x, y]}"))
        await at.until_taken(2)
    assert [one.roots.deny for one in at.taken] == [("x",), ("x", "y")]


@virtual_time
async def test_a_file_that_still_changes_is_not_read(top: Path) -> None:
    """Half of a file may say less than the whole."""
    at = Running(top, config())
    async with watching(at.watch, anyio.sleep_forever):
        for size in range(1, 6):
            at.file.write_text(config(f"{{deny: [{'x' * size}]}}"))
            await anyio.sleep(watch.EVERY)
        await at.until_taken(1)
        await anyio.sleep(3 * watch.EVERY)
    assert [one.roots.deny for one in at.taken] == [("xxxxx",)]


async def test_a_pipe_is_not_watched(top: Path) -> None:
    at = Running(top, config())
    seen = (0, 0, 0, 0, 0o010600)
    at.watch = at.watch_with(at.take, Watched("hub.yaml", at.context, seen))
    at.file.write_text("servers: {other: {command: files-server}}\n")
    with anyio.fail_after(20):
        await at.watch.run()
    assert at.taken == []


class ReloadRequests:
    """Asks to reload when a test says so."""

    def __init__(self) -> None:
        self.send, self.heard = anyio.create_memory_object_stream[None](1)

    async def __call__(self) -> None:
        await self.heard.receive()


async def test_who_asks_has_all_of_the_file_taken_over_though_it_looks_the_same(
    top: Path,
) -> None:
    at, asked = Running(top, config("{deny: [x]}"), places=(".",)), ReloadRequests()
    seen = at.file.stat()
    with capture_logs() as logged, anyio.fail_after(20), asked.send, asked.heard:
        async with watching(at.watch, asked):
            at.file.write_text(config("{deny: [y]}"))
            os.utime(at.file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
            await asked.send.send(None)
            await at.until_taken(1)
    assert at.taken[-1].roots.deny == ("y",)
    assert logged[0]["event"] == "asked to reload"


async def test_without_a_file_nothing_is_watched_and_who_asks_is_told(top: Path) -> None:
    at, asked = Running(top, config()), ReloadRequests()
    by = WritableBy(ConfigFile(), PathLookup(OsDisk(), Flavour.POSIX, "/"), list, at.trust)
    at.watch = ConfigWatch(None, at.running, at.take, by)
    with capture_logs() as logged, anyio.fail_after(20), asked.send, asked.heard:
        async with watching(at.watch, asked):
            await asked.send.send(None)
            await all_tasks_blocked()
    assert logged[-1]["event"] == "nothing to reload: there is no config file"
    report = await at.watch.take_over(confirmed=True)
    assert report.lines()[1:] == ["there is no config file", "Start the hub with --config."]


# Commands that print secrets


def with_command(top: Path, count: int) -> str:
    command = f"sh -c 'echo ran >> {top}/ran{count}; echo token-{count}'"
    return config(rest=f'listen: {{token: "${{cmd:{command}}}"}}\n{SERVERS}')


async def test_a_reload_runs_the_commands_that_the_file_names(top: Path) -> None:
    at = Running(top, with_command(top, 1), reads_secrets=True)
    assert at.running.listen.token is not None
    assert at.running.listen.token.get_secret_value() == "token-1"
    (line,) = await at.becomes(with_command(top, 2))
    assert line["keys"] == ["listen.token"]
    assert at.taken[-1].listen.token is not None
    assert at.taken[-1].listen.token.get_secret_value() == "token-2"


async def test_where_calls_may_write_the_file_its_commands_are_not_run(top: Path) -> None:
    at = Running(top, with_command(top, 1), places=(".",), reads_secrets=True)
    lines = await at.becomes(with_command(top, 2))
    assert [one["key"] for one in lines] == ["listen.token"]
    assert not (top / "ran2").exists()
    assert at.taken == []
    await at.reloaded(confirmed=True)
    assert (top / "ran2").exists()
    assert at.taken[-1].listen.token is not None
    assert at.taken[-1].listen.token.get_secret_value() == "token-2"


@pytest.mark.parametrize("mistake", ["", "gaurd: off\n"])
async def test_a_token_that_is_not_read_again_stays(top: Path, mistake: str) -> None:
    command = "{name: c, token: '${cmd:echo token-of-c}'}"
    text = tokens("a", "b").replace("tokens: [", f"tokens: [{command}, ")
    at = Running(top, text, places=(".",), reads_secrets=True)
    await at.becomes(tokens("b", rest=mistake).replace("tokens: [", f"tokens: [{command}, "))
    (taken,) = at.taken
    assert counting(taken) == [("c", 0), ("b", 2999)]
    assert taken.listen.tokens[0] == at.running.listen.tokens[0]
    hashed = command.replace("token: '${cmd:echo token-of-c}'", f"sha256: {HASHES['a']}")
    await at.becomes(tokens("b").replace("tokens: [", f"tokens: [{hashed}, "))
    assert counting(at.taken[-1]) == [("b", 2999)]


async def test_a_command_that_fails_at_a_reload_leaves_the_config_as_it_was(top: Path) -> None:
    at = Running(top, with_command(top, 1), reads_secrets=True)
    (line,) = await at.becomes(with_command(top, 1).replace("echo token-1", "exit 7"))
    assert line["event"] == "config not reloaded: the old one stays"
    assert "listen.token: the command 'sh' failed: exit code 7" in said(line)
    assert at.taken == []
