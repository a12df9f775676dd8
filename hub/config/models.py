"""The keys of hub.yaml, as pydantic models. Unknown keys are errors; times are in seconds.

The docstrings of the models are descriptions in the output of `roots-hub schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    StringConstraints,
    Tag,
    model_validator,
)

from hub.catalog.names import NamesMode
from hub.catalog.search import Expose
from hub.config.fields import (
    AccessAt,
    ArgumentText,
    CommandText,
    Count,
    EnvText,
    FieldError,
    Flag,
    HeaderName,
    HeaderText,
    Name,
    Part,
    PathText,
    Patterns,
    PlaceText,
    Pointer,
    Port,
    ResultBytes,
    Seconds,
    SecondsOrZero,
    Variable,
    WebAddress,
    inheritable,
    mode_alone,
    off_spelled_false,
    path_alone,
)
from hub.config.listening.auth import SafeAddress, ScopeName, united
from hub.config.listening.listen import Listen
from hub.config.listening.profile import Profile, ProfileName
from hub.config.source.places import Path, spelled
from hub.confinement.landlock import MAX_ABI
from hub.errors import Fault
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Access
from hub.launch.plan import ArgsMode, LaunchTemplate, mentions_roots
from hub.launch.templates import SecretText, Template, parse_template
from hub.specs import Allowance, LeftOut

_OFF: Final = BeforeValidator(off_spelled_false)
GuardMode: TypeAlias = Annotated[Literal["enforce", "report", "off"], _OFF]
ConfineModeText: TypeAlias = Annotated[Literal["off", "auto", "require"], _OFF]
FaultAt: TypeAlias = Callable[[Path, str, str], Fault]
"""Returns the fault at a path of the config: what is wrong, and the remedy."""


class Guard(Part):
    """What is done with calls that leave the roots. A server's own keys go before the hub's."""

    mode: GuardMode = "enforce"
    on_refused: Literal["refuse", "ask"] = "refuse"
    symlinks: Literal["follow", "deny"] = "follow"
    rewrite: Literal["verbatim", "canonical"] = "verbatim"
    refuse_options: Flag = False


def said_by(guard: Guard | None) -> dict[str, object]:
    """Return the keys that a server's guard sets itself: they go before the hub's."""
    return {} if guard is None else {key: getattr(guard, key) for key in guard.model_fields_set}


GuardKey: TypeAlias = Annotated[
    Guard, BeforeValidator(mode_alone, json_schema_input_type=GuardMode | Guard)
]


class Confine(Part):
    """What the kernel keeps a child process to; `read` and `write` are allowed beside its roots."""

    mode: ConfineModeText = "off"
    read: tuple[PathText, ...] = ()
    write: tuple[PathText, ...] = ()
    allow: tuple[Allowance, ...] = ()
    abi: Annotated[int, Field(ge=1, le=MAX_ABI)] = 1

    @model_validator(mode="after")
    def _asks_with_effect(self) -> Self:
        if self.abi > 1 and self.mode != "require":
            what = "abi needs mode: require; other modes accept older kernels"
            raise FieldError(what, "Write `mode: require`, or take `abi` out.")
        return self


ConfineKey: TypeAlias = Annotated[
    Confine, BeforeValidator(mode_alone, json_schema_input_type=ConfineModeText | Confine)
]


class ToolOverride(Part):
    """What the operator says about one tool, by the child's own name for it."""

    title: str | None = None
    description: str | None = None
    access: Access | None = None
    guard: GuardMode | None = None
    scopes: tuple[ScopeName, ...] = ()
    arguments: dict[Pointer, Kind] = Field(default_factory=dict[str, Kind])


class Tools(Part):
    """Which of a child's tools are offered, by globs on its own names, and how."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    overrides: dict[str, ToolOverride] = Field(default_factory=dict[str, ToolOverride])


class RemoteRoots(Part):
    """What a child behind a URL learns of the roots."""

    answer: Flag = True


class StdioRoots(RemoteRoots):
    """What a child process learns of the roots."""

    args: ArgsMode = "auto"


class _Server(Part):
    guard: GuardKey | None = None
    share: Literal["auto", "roots", "session", "all"] = "auto"
    start: Literal["auto", "lazy", "eager"] = "auto"
    start_timeout: Seconds = 30
    timeout: Seconds = 300
    concurrency: Count = 64
    idle_stop: Seconds = 600
    era: Literal["auto", "legacy", "modern"] = "auto"
    describe_roots: Flag = False
    scopes: tuple[ScopeName, ...] = ()
    tools: Tools = Tools()


Environment: TypeAlias = Annotated[
    Literal["default", "all", "minimal"] | tuple[Variable, ...], BeforeValidator(inheritable)
]
"""Which environment variables a child process inherits: a word, or names and globs."""


class StdioServer(_Server):
    """A child that the hub launches."""

    command: CommandText
    args: tuple[ArgumentText, ...] = ()
    env: dict[Variable, EnvText] = Field(default={}, repr=False)
    environment: Environment = "default"
    cwd: PlaceText | None = None
    roots: StdioRoots = StdioRoots()
    confine: ConfineKey = Confine()

    @property
    def secret_texts(self) -> dict[str, Template]:
        """The texts that may refer to secrets, by their place in the server."""
        return {f"env.{name}": text for name, text in self.env.items()}

    def template(self, name: str) -> LaunchTemplate:
        """Return the launch template of this server; `name` is its key in `servers`."""
        return LaunchTemplate(
            name,
            parse_template(self.command),
            tuple(parse_template(text, spread=True) for text in self.args),
            tuple(self.env.items()),
            None if self.cwd is None else parse_template(self.cwd),
            self.roots.args,
        )


class RemoteAuth(Part):
    """How somebody logs in at a server (`roots-hub login NAME`), and whose the login is."""

    client_id: Annotated[str, StringConstraints(min_length=1)] | None = None
    client_secret: HeaderText | None = Field(default=None, repr=False)
    client_metadata: SafeAddress | None = None
    issuer: SafeAddress | None = None
    scopes: tuple[ScopeName, ...] = ()
    redirect_port: Port | None = None
    shared: Flag = False
    keep: Literal["file", "keyring"] = "file"

    @model_validator(mode="after")
    def _is_bound(self) -> Self:
        if self.client_secret is not None and self.client_id is None:
            raise FieldError("client_secret needs client_id", "Write both, or neither.")
        if self.client_id is not None and self.client_metadata is not None:
            raise FieldError("has client_id and client_metadata", "Take one of the two out.")
        if self.client_secret is not None and self.issuer is None:
            what = "client_secret needs issuer: the secret goes to nobody else"
            raise FieldError(what, "Write the authorization server that it is for.")
        return self


def _oauth_alone(value: object) -> object:
    if isinstance(value, str | bool) and value != "oauth":
        raise FieldError("must be oauth, or a mapping", "Write `auth: oauth`.")
    return {} if value == "oauth" else value


RemoteAuthKey: TypeAlias = Annotated[
    RemoteAuth, BeforeValidator(_oauth_alone, json_schema_input_type=Literal["oauth"] | RemoteAuth)
]


class RemoteServer(_Server):
    """A child behind a URL. `paths: remote`: its absolute paths are those of another machine."""

    url: WebAddress = Field(repr=False)
    auth: RemoteAuthKey | None = None
    headers: dict[HeaderName, HeaderText] = Field(default_factory=dict[str, SecretText])
    transport: Literal["auto", "http", "sse"] = "auto"
    paths: Literal["local", "remote"] = "local"
    roots: RemoteRoots = RemoteRoots()

    @property
    def secret_texts(self) -> dict[str, SecretText]:
        """The texts that may refer to secrets, by their place in the server."""
        found = {f"headers.{name}": text for name, text in self.headers.items()}
        if self.auth is not None and self.auth.client_secret is not None:
            found["auth.client_secret"] = self.auth.client_secret
        return found


def _how_reached(server: object) -> str | None:
    if isinstance(server, Mapping):
        ways = [way for way in ("command", "url") if way in server]
        return ways[0] if len(ways) == 1 else None
    if isinstance(server, StdioServer):
        return "command"
    return "url" if isinstance(server, RemoteServer) else None


Server: TypeAlias = Annotated[
    Annotated[StdioServer, Tag("command")] | Annotated[RemoteServer, Tag("url")],
    Discriminator(
        _how_reached,
        custom_error_type="one_way",
        custom_error_message="needs exactly one of command and url",
    ),
]


class Stdio(Part):
    """How clients on stdin and stdout are served."""

    max_result: ResultBytes | None = None


class FallbackRoot(Part):
    """A root that stands in for those of clients without any."""

    path: PathText
    name: str | None = None


FallbackKey: TypeAlias = Annotated[
    FallbackRoot, BeforeValidator(path_alone, json_schema_input_type=str | FallbackRoot)
]


class Roots(Part):
    """What holds for the roots of all clients."""

    fallback: tuple[FallbackKey, ...] = ()
    ceiling: tuple[PathText, ...] = ()
    detect: Flag = False
    when_missing: Literal["allow", "deny"] = "allow"
    when_empty: Literal["allow", "deny"] = "deny"
    strict: Flag = False
    timeout: Seconds = 10
    debounce: SecondsOrZero = 0.25
    reuse: SecondsOrZero = 0
    deny: Patterns = ()
    allow_unsafe: Flag = False
    access: tuple[AccessAt, ...] = ()


class Audit(Part):
    """Where the audit log goes."""

    file: PathText


class HubConfig(Part):
    """A whole config."""

    version: Literal[1]
    listen: Listen = Listen()
    stdio: Stdio = Stdio()
    roots: Roots = Roots()
    guard: GuardKey = Guard()
    names: NamesMode = "auto"
    expose: Expose = "tools"
    instructions: str | None = None
    linger: SecondsOrZero = 300
    max_children: Count = 64
    max_children_per_session: Count | None = None
    drain: SecondsOrZero = 5
    audit: Audit | None = None
    servers: dict[Name, Server] = Field(default_factory=dict[str, StdioServer | RemoteServer])
    profiles: dict[ProfileName, Profile] = Field(default_factory=dict[str, Profile])
    _left_out: tuple[LeftOut, ...] = PrivateAttr(default=())
    _fault_at: FaultAt | None = PrivateAttr(default=None)
    _is_clients: bool = PrivateAttr(default=False)

    @property
    def is_clients(self) -> bool:
        """Whether the file is another program's, which has no keys of the hub's own."""
        return self._is_clients

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The servers of the file that cannot be used; they are not among `servers`."""
        return self._left_out

    @property
    def scopes(self) -> tuple[str, ...]:
        """All scopes that the config names, the general ones first."""
        general = () if self.listen.auth is None else self.listen.auth.scopes
        return united(general, *(scopes for _, scopes in self.particular_scopes()))

    def particular_scopes(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Yield the scopes of servers and tools, with their places."""
        for name, server in self.servers.items():
            if server.scopes:
                yield ("servers", name, "scopes"), server.scopes
            for tool, override in server.tools.overrides.items():
                if override.scopes:
                    yield ("servers", name, "tools", "overrides", tool, "scopes"), override.scopes

    def with_servers(
        self,
        servers: Mapping[str, StdioServer | RemoteServer],
        left_out: Iterable[LeftOut],
        fault_at: FaultAt,
        *,
        is_clients: bool,
    ) -> HubConfig:
        """Return this config with these servers; `fault_at` shows a place in the file."""
        made = self.model_copy(update={"servers": dict(servers)}).with_left_out(left_out)
        made._fault_at = fault_at
        made._is_clients = is_clients
        return made

    def with_left_out(self, left_out: Iterable[LeftOut]) -> HubConfig:
        """Return this config with these servers left out."""
        made = self.model_copy()
        made._left_out = tuple(left_out)
        return made

    def fault(self, path: Path, what: str, fix: str) -> Fault:
        """Return the fault at a path, with its place in the file if there is one."""
        if self._fault_at is None:
            return Fault(spelled(path), what, fix)
        return self._fault_at(path, what, fix)

    def guard_of(self, server: str) -> Guard:
        """Return the guard settings of one server: its own keys, else the hub's."""
        return self.guard.model_copy(update=said_by(self.servers[server].guard))


def is_for_principals(server: Server) -> bool:
    """Return whether each principal logs in at a server for itself."""
    return isinstance(server, RemoteServer) and server.auth is not None and not server.auth.shared


def is_shared_with_roots(server: StdioServer | RemoteServer, name: str) -> bool:
    """Return whether all clients would share a child that is launched with the roots of one."""
    if not isinstance(server, StdioServer) or server.share != "all":
        return False
    return mentions_roots(server.template(name))


@cache
def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of hub.yaml, for editors."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **HubConfig.model_json_schema(), "title": "roots-hub config"}
