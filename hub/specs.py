"""Settings of each configured server (`ServerSpec`), checked: what the runtime works from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, field

from hub.catalog.merge import Offer
from hub.errors import Fault
from hub.guard.policy import Policy, ToolPolicy
from hub.launch.environments import Inherits
from hub.launch.plan import LaunchTemplate, mentions_roots
from hub.launch.templates import SecretText
from hub.roots.roots import RootSet
from hub.values import CallMethod, ServerName, is_this_user, principal_in

EraChoice: TypeAlias = Literal["auto", "legacy", "modern"]
TransportChoice: TypeAlias = Literal["auto", "http", "sse"]
"""How a URL is reached; `auto`: streamable HTTP, else HTTP+SSE."""
Share: TypeAlias = Literal["auto", "roots", "session", "all"]
"""Who may share a child: clients with the same roots (`roots`), all clients (`all`), or nobody.

`auto` (of a server that may keep something between calls): a child for each client, as far as the
hub can tell clients apart; over HTTP, modern clients of one principal cannot be told apart.
`session`: a child for each session; a modern request over HTTP is a session.
"""
ConfineMode: TypeAlias = Literal["off", "auto", "require"]
Allowance: TypeAlias = Literal["userns", "any_owner"]
"""What a confined child may still do: `userns` (seccomp filter), `any_owner` (capabilities)."""


_SHARING: dict[Share, str] = {
    "all": "all clients share a process",
    "roots": "clients with the same roots share a process",
    "session": "a process for each session",
    "auto": "a process for each session, of modern clients over HTTP for each token and roots",
}

_URL = re.compile(r"https?://[^\s\"<>]*[^\s'\"<>.,:;!?)]", re.IGNORECASE)
"""A URL in a text. A quote may be in its password, so that only one at its end is not the URL's."""


def shown_url(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    scheme, _, rest = url.partition("://")
    place = rest.partition("#")[0].partition("?")[0]
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


class RemoteLogin(Struct, frozen=True):
    """That a person logs in at a server, and how; `is_shared`: for all principals.

    `in_keyring`: what seals the login is in the user's keyring, not in a file. `owner` is the
    principal whose login is used (empty: this machine's user), `page` the address where it logs in;
    the pool sets both when it opens a connection. The other fields are those of
    `servers.NAME.auth`.
    """

    is_shared: bool = False
    in_keyring: bool = False
    client_id: str | None = None
    client_secret: SecretText | None = None
    client_metadata: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    redirect_port: int | None = None
    owner: str = ""
    page: str | None = None

    def __repr__(self) -> str:
        return f"RemoteLogin({self.issuer!r})"  # it may have a secret

    def owner_for(self, identity: str) -> str:
        """Return the owner of the login that a client uses: its principal, or this machine's user.

        There is no other that it could use.
        """
        return "" if self.is_shared or is_this_user(identity) else principal_in(identity)


class RemoteTarget(Struct, frozen=True):
    """A remote child, reached by a URL. URL and headers may hold secrets: show only `shown`."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    transport: TransportChoice = "auto"
    secrets: Mapping[str, SecretText] = field(default_factory=dict[str, SecretText])
    """Further headers, which refer to secrets: they are read at each connection."""
    login: RemoteLogin | None = None

    def __repr__(self) -> str:
        return f"RemoteTarget({self.shown!r})"

    @property
    def shown(self) -> str:
        """The URL without user, password, query and fragment, which may be secrets."""
        return shown_url(self.url)


Target: TypeAlias = LaunchTemplate | RemoteTarget


class ConfineSetting(Struct, frozen=True):
    """How one child is confined: `read` and `write` are paths granted in addition to its roots.

    `abi` is the oldest Landlock version that will do: with an older one the child is not launched.
    """

    mode: ConfineMode = "off"
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    allow: tuple[Allowance, ...] = ()
    abi: int = 1


class LeftOut(Struct, frozen=True):
    """A server of the config that cannot be used, and its faults: at least one."""

    name: ServerName
    faults: tuple[Fault, ...]

    @property
    def reason(self) -> str:
        """Why it is left out, and what to do, as one sentence each."""
        return "; ".join(f"{fault.said}. {fault.fix}" for fault in self.faults)


class NeededScopes(Struct, frozen=True):
    """All scopes that an issuer's token needs for what a server offers.

    `tools` has those of single tools, by the server's own name; `others` are for all else. Empty:
    no more is needed than for any request.
    """

    others: tuple[str, ...] = ()
    tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def __bool__(self) -> bool:
        return bool(self.others or self.tools)

    def of(self, method: CallMethod, name: str) -> tuple[str, ...]:
        """Return the scopes for a call; `name` is the server's own name of what is called."""
        return self.tools.get(name, self.others) if method == "tools/call" else self.others


class ServerSpec(Struct, frozen=True):
    """One configured server. Times are in seconds.

    `directories` are the directories in a filesystem server's own arguments, as paths. `ceiling` is
    the same as roots; None if there are none, or if the client's roots replace them.
    `tool_policies` has policies of single tools, by the child's own tool name. `environment` says
    which variables the child process inherits, `inherits` has them with their values. `fingerprint`
    is a digest of what a running child depends on beside its launch plan, `catalog_id` of those
    parts of it that may change what the child lists. `for_commands` are the variables of the
    commands that print its secrets; empty without such commands.
    `eager` None is `start: auto`. `confined_by` is the policy that a process is confined by; None:
    `policy`, which may be stricter, if the process serves clients of other profiles, too.
    """

    name: ServerName
    target: Target
    policy: Policy = field(default_factory=Policy)
    tool_policies: Mapping[str, ToolPolicy] = field(default_factory=dict[str, ToolPolicy])
    ceiling: RootSet | None = None
    directories: tuple[str, ...] = ()
    offer: Offer = field(default_factory=Offer)
    answer_roots: bool = True
    describe_roots: bool = False
    confine: ConfineSetting = field(default_factory=ConfineSetting)
    environment: Inherits = "default"
    inherits: Mapping[str, str] = field(default_factory=dict[str, str])
    for_commands: Mapping[str, str] = field(default_factory=dict[str, str])
    fingerprint: str = ""
    catalog_id: str = ""
    share: Share = "auto"
    eager: bool | None = None
    era: EraChoice = "auto"
    start_timeout: float = 30.0
    timeout: float = 300.0
    concurrency: int = 64
    idle_stop: float = 600.0
    confined_by: Policy | None = None
    scopes: NeededScopes = field(default_factory=NeededScopes)

    @property
    def has_login(self) -> bool:
        """Whether somebody logs in at the server."""
        return isinstance(self.target, RemoteTarget) and self.target.login is not None

    @property
    def is_launched_for_roots(self) -> bool:
        """Whether roots are in its command, its environment or its `cwd`."""
        return isinstance(self.target, LaunchTemplate) and mentions_roots(self.target)

    @property
    def sharing(self) -> str:
        """Which clients share a process of the server, or a connection to it, for people."""
        said = _SHARING[self.share]
        is_remote = isinstance(self.target, RemoteTarget)
        return said.replace("process", "connection") if is_remote else said

    def without_secrets(self, text: str) -> str:
        """Return an error text with every URL as in `shown_url`: clients read such texts."""
        if isinstance(self.target, RemoteTarget):
            text = text.replace(self.target.url, self.target.shown)
        return _URL.sub(lambda found: shown_url(found[0]), text)

    def policy_of(self, tool: str) -> ToolPolicy:
        """Return the policy for calls of `tool`, the child's own tool name."""
        return self.tool_policies.get(tool) or ToolPolicy(policy=self.policy)
