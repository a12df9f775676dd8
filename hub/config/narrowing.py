"""What is left of a config for the clients of a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from hub.catalog.merge import Offer
from hub.config.listening.profile import Profile
from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext, ceiling_of
from hub.config.to_specs import access_rules
from hub.guard.policy import AccessRule, DenyPatterns, Mode, Policy
from hub.roots.effective import OperatorRoots
from hub.sessions.services import Configured
from hub.specs import ServerSpec
from hub.values import ServerName


def narrowed(made: Configured, config: HubConfig, name: str, place: PathContext) -> Configured:
    """Return what is left of `made`, which comes from `config`, for the clients of a profile.

    Raises: ConfigError if a path of the profile cannot be used.
    """
    profile = config.profiles[name]
    return replace(
        made,
        servers=narrowed_servers(made.servers, config, name, place),
        roots=narrowed_roots(made.roots, config, name, place),
        left_out=[one for one in made.left_out if _has(profile, one.name)],
    )


def narrowed_servers(
    specs: Mapping[ServerName, ServerSpec], config: HubConfig, name: str, place: PathContext
) -> dict[ServerName, ServerSpec]:
    """Return the servers of a profile, as they are for its clients; raises as `narrowed`."""
    profile, at = config.profiles[name], ("profiles", name, "roots", "access")
    rules = access_rules(profile.roots.access, at, place, config.fault)
    return {
        server: _spec(spec, profile, rules)
        for server, spec in specs.items()
        if _has(profile, server)
    }


def narrowed_roots(
    roots: OperatorRoots, config: HubConfig, name: str, place: PathContext
) -> OperatorRoots:
    """Return the operator's roots with the ceiling of a profile."""
    paths = config.profiles[name].roots.ceiling
    own = ceiling_of(paths, f"profiles.{name}.roots.ceiling", place)
    if own is None:
        return roots
    return replace(roots, ceiling=own if roots.ceiling is None else roots.ceiling.within(own))


def _has(profile: Profile, server: ServerName) -> bool:
    return any(fnmatchcase(server, glob) for glob in profile.servers)


def _spec(spec: ServerSpec, profile: Profile, rules: Sequence[AccessRule]) -> ServerSpec:
    policy = _policy(spec.policy, profile, rules)
    return replace(
        spec,
        policy=policy,
        tool_policies={
            tool: replace(own, policy=_policy(own.policy, profile, rules))
            for tool, own in spec.tool_policies.items()
        },
        offer=_offer(spec, profile),
        confined_by=spec.policy if spec.share == "all" else None,
    )


def _offer(spec: ServerSpec, profile: Profile) -> Offer:
    allow, deny = (
        globs_for(spec.name, globs) for globs in (profile.tools.allow, profile.tools.deny)
    )
    return replace(spec.offer, deny=(*spec.offer.deny, *deny), only=allow)


def globs_for(server: ServerName, globs: Sequence[str]) -> tuple[str, ...]:
    """Return the globs on a server's own tool names among `globs`; `SERVER/` may precede one."""
    found: list[str] = []
    for glob in globs:
        whose, slash, tool = glob.partition("/")
        if not slash:
            found.append(glob)
        elif fnmatchcase(server, whose):
            found.append(tool)
    return tuple(found)


def _policy(policy: Policy, profile: Profile, rules: Sequence[AccessRule]) -> Policy:
    guard = profile.guard
    return replace(
        policy,
        mode=Mode.ENFORCE if guard.mode == "enforce" else policy.mode,
        access=stricter(policy.access, rules),
        deny=DenyPatterns((*policy.deny.lines, *profile.roots.deny)),
        symlinks=guard.symlinks or policy.symlinks,
        refuse_options=guard.refuse_options or policy.refuse_options,
        on_refused=guard.on_refused or policy.on_refused,
    )


def stricter(one: Sequence[AccessRule], other: Sequence[AccessRule]) -> tuple[AccessRule, ...]:
    """Return rules that allow what both lists allow: where either says `read`, they do."""
    if not one or not other:
        return (*one, *other)
    places = dict.fromkeys(rule.parts for rule in (*one, *other))
    return tuple(
        AccessRule(parts, "read" if "read" in {_at(one, parts), _at(other, parts)} else "write")
        for parts in places
    )


def _at(rules: Sequence[AccessRule], parts: tuple[str, ...]) -> str:
    """Return what a list of rules allows at a place: the innermost rule counts."""
    return Policy(access=(*rules,)).access_at(parts)
