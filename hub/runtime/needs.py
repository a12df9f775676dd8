"""Whether a modern client's request can be served without its roots, or it must be asked first.

Such a client is asked by its request's result and sends the request again: a round trip that only
those requests make whose answer its roots can change.
"""

from __future__ import annotations

from collections.abc import Collection

from hub.core.audit import refusal_of
from hub.core.guard import Refused, acts_on_places, compile_tool, decide
from hub.core.in_force import NOT_ASKED
from hub.core.launch import LaunchTemplate, mentions_roots
from hub.core.protocol import MISSING_CLIENT_CAPABILITY
from hub.core.specs import ServerSpec
from hub.core.values import Call, JsonObject, ServerName, object_or_empty
from hub.core.whereabouts import OUTSIDE, Surroundings
from hub.runtime.addressing import Addressed
from hub.runtime.builtin import GET_ROOTS
from hub.runtime.consent import Case
from hub.runtime.links import CachedLinks
from hub.runtime.parties import RootsNeededError
from hub.runtime.peer import RpcError
from hub.runtime.session import Session

_ASKABLE = frozenset({"tools/call", "prompts/get", "resources/read"})
_REQUIRED: JsonObject = {"requiredCapabilities": {"roots": {}}}


def ask_before_looking(
    session: Session, named: Addressed, owners: Collection[ServerName] | None
) -> None:
    """Let the client be asked where the call is sure to need roots, before any child is started.

    Raises: RootsNeededError.
    """
    if not session.unasked or named.question is not None or named.method not in _ASKABLE:
        return
    if named.server is None and named.name == GET_ROOTS and named.method == "tools/call":
        raise RootsNeededError
    servers = session.services.servers
    specs = [servers[name] for name in (servers if owners is None else owners) if name in servers]
    if not specs:
        return
    if all(_depends(session, spec) for spec in specs) or _is_telling(session, named, specs):
        raise RootsNeededError


def ask_before_deciding(case: Case) -> None:
    """Let the client be asked for its roots if what becomes of its call depends on them.

    It does where the guard would refuse a client without roots; where the child is launched for its
    roots or asks for them; and where a tool that can be given a place works, without one, where it
    was launched.

    Raises: RootsNeededError; RpcError where a client without roots has no use of the server.
    """
    session = case.session
    if session.unasked and case.call.method in _ASKABLE:
        depends = _depends(session, case.place.spec) or acts_on_places(case.guard)
        if depends or refusal_of(case.decide()) is not None:
            raise RootsNeededError
    elif session.is_modern and case.call.method in _ASKABLE and _is_in_vain(case):
        text = "This call names a path, and the operator serves no paths to clients without roots"
        raise RpcError(MISSING_CLIENT_CAPABILITY, text, _REQUIRED)


def _is_in_vain(case: Case) -> bool:
    client, force = case.session.client, case.force
    if client is None or client.declares("roots") or not force.enforcing or force.source != "none":
        return False
    refused = case.decide()
    hopeless = isinstance(refused, Refused) and refused.reason == OUTSIDE
    return hopeless and case.guard.policy.policy.on_refused != "ask"


def _depends(session: Session, spec: ServerSpec) -> bool:
    if spec.share == "all":
        return False
    launched = isinstance(spec.target, LaunchTemplate) and mentions_roots(spec.target)
    return launched or session.services.children.ask_for_roots(spec.name)


def _is_telling(session: Session, named: Addressed, specs: list[ServerSpec]) -> bool:
    """Return whether arguments name a place that no schema can explain away: none is known yet."""
    children, machine = session.services.children, session.services.machine
    if any(children.last_known(session.place(spec, NOT_ASKED)) is not None for spec in specs):
        return False
    uri: JsonObject = {"uri": named.name}
    by_uri = named.method.startswith("resources/")
    arguments = uri if by_uri else object_or_empty(named.params.get("arguments"))
    call = Call(named.method, named.name, arguments, named.params)
    guards = (
        compile_tool(None, read_only=True, policy=spec.policy_of(named.name)) for spec in specs
    )
    around = Surroundings(
        roots=NOT_ASKED.roots,
        cwd=None,
        env=machine.environment,
        links=CachedLinks(machine.links),
        flavour=machine.flavour,
        enforcing=True,
    )
    return all(isinstance(decide(call, guard, around), Refused) for guard in guards)
