"""`roots-hub run`, `wrap`, and `attach` where no shared hub serves the client: serve clients."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import anyio
import structlog
from msgspec import structs
from msgspec.structs import replace

from hub.app.client_access import ClientAccess, keys_in, limit_principals
from hub.app.hub import Hub
from hub.app.machine import Setting, this_machine
from hub.app.running import ConnectionBuilder, running_hub
from hub.cli.hubs.attach import AttachOptions, attached_to
from hub.cli.options import (
    Subparsers,
    add_config_option,
    add_root_option,
    file_server_config,
    file_server_setting,
    load_context,
    log_file_of,
)
from hub.cli.served import Served, answer_inquiries, nobody_yet, served
from hub.cli.terminal import trusted_digest
from hub.config.listening.listen import Listen
from hub.config.load import config_from_command, config_source, load_config
from hub.config.models import HubConfig, is_for_principals
from hub.config.own_files import FOUND
from hub.config.records import record_key, trust_record
from hub.config.source.documents import is_inline
from hub.config.watch import Watched
from hub.confinement.confined_launch import this_kernel
from hub.errors import StartError, UsageError
from hub.roots.effective import OperatorRoots
from hub.server.http.access import AccessCheck
from hub.system.shutdown import Shutdown, ended_by_signals, ignore_ending_signals
from hub.system.this_process import run_loop, take_passed_socket

if TYPE_CHECKING:
    from hub.server.http.adoption import SurvivingState
    from hub.server.http.bounds.forwarded import Proxies
    from hub.usage.principals import UsageByPrincipal

LAST_PORT = 65535
"""The highest TCP port number."""

log = structlog.stdlib.get_logger(__name__)


def register(subparsers: Subparsers) -> None:
    """Add the subcommands `run`, `attach` and `wrap`."""
    run = subparsers.add_parser(
        "run",
        help="serve a config, or files of this directory",
        description="Serve the servers of a config: of the one that is named, else of the hub.yaml "
        "in this directory, if you trust it (a terminal asks once). Without a config: an embedded "
        "read-write file server on the current directory (or on the --root folders), which no "
        "client's roots exceed.",
    )
    add_config_option(run)
    run.add_argument(
        "--no-config", action="store_true", help="serve files, though there is a hub.yaml here"
    )
    add_root_option(run)
    where = run.add_mutually_exclusive_group()
    where.add_argument(
        "--stdio", action="store_true", help="serve one client on stdin and stdout (the default)"
    )
    where.add_argument(
        "--http",
        metavar="HOST:PORT",
        nargs="?",
        const="",
        type=_host_and_port,
        help="serve many clients over HTTP; a socket that systemd passes goes before HOST:PORT",
    )
    run.set_defaults(perform=serve_config)
    _register_attach(subparsers)
    _register_wrap(subparsers)


def _register_attach(subparsers: Subparsers) -> None:
    attach = subparsers.add_parser(
        "attach",
        help="serve a client through your shared hub, which is started if need be",
        description="For a client's config, in place of `run --stdio`: all sessions with a config "
        "share one hub, and with it the servers that may be shared. The hub ends when it has had "
        "no client for `linger` seconds (300).",
    )
    add_config_option(attach)
    add_root_option(attach)
    attach.add_argument(
        "--alone", action="store_true", help="serve this client in this process, as `run --stdio`"
    )
    attach.set_defaults(perform=_attach, http=None, no_config=False)


def _register_wrap(subparsers: Subparsers) -> None:
    wrap = subparsers.add_parser(
        "wrap",
        help="put the hub before one server: roots-hub wrap -- COMMAND ARGS...",
        description="Launch one server and serve it on stdin and stdout under its own tool names.",
    )
    add_root_option(wrap)
    wrap.add_argument(
        "--shared",
        action="store_true",
        help="let all sessions with this command line share one hub, as `attach` does",
    )
    wrap.add_argument("command", metavar="COMMAND", help="the server's command")
    wrap.add_argument("args", metavar="ARGS", nargs="*", default=[], help="its arguments, after --")
    wrap.set_defaults(perform=_wrap)


def serve_config(options: Namespace) -> int:
    """Serve a config, or files of this directory; return the exit code."""
    # Before anything reads the environment: what announces the socket is for nobody else.
    passed = None if options.http is None else take_passed_socket(os.environ)
    config, setting, source = _chosen(options)
    setting = replace(setting, log_file=log_file_of(options))
    what = partial(served, config, source=source, is_embedded=bool(setting.ceiling))
    if options.http is None:
        run_loop(_serve_stdio, config, setting, partial(_tell, what, source))
    else:
        run_loop(_serve_http, config, setting, passed or options.http, what)
    return 0


def _attach(options: Namespace) -> int:
    wanted = AttachOptions()
    wanted.config, wanted.roots, wanted.is_alone = options.config, options.root, options.alone
    code = _attached_to(wanted, options.why_alone)
    return serve_config(options) if code is None else code


def _attached_to(wanted: AttachOptions, why: str | None) -> int | None:
    """Have a shared hub serve the client, and return the exit code; None if this process must.

    `why`: why none does, if that was tried already.
    """
    outcome = attached_to(wanted) if why is None else why
    if isinstance(outcome, int):
        return outcome
    log.info("no shared hub: this process serves the client alone", why=outcome)
    return None


def _tell(
    what: Callable[[OperatorRoots], Served], source: str | None, roots: OperatorRoots
) -> None:
    """Tell on stderr what is served over stdio, and a person whom it waits for."""
    log.info("serving", **structs.asdict(what(roots)))
    if sys.stdin.isatty():
        print(nobody_yet(source, roots), file=sys.stderr, flush=True)


def _chosen(options: Namespace) -> tuple[HubConfig, Setting, str | None]:
    """Return the config to serve, its setting, and the name of its file, if it has one.

    Raises:
        ConfigError: the config is wrong.
        UsageError: there is a config here that the user does not trust, or one is named though
            there is to be none.
    """
    if options.no_config and options.config is not None:
        raise UsageError("--no-config: --config names one", "Take one of the two out.")
    source = None if options.no_config else config_source(options.config, os.environ)
    digest = None
    if source is None and not options.no_config:
        digest = trusted_digest(trust_record(this_machine(os.environ)))
        source = FOUND if digest is not None else None
    if source is None:
        return file_server_config(this_kernel()), file_server_setting(options), None
    context = load_context(digest, reads_secrets=options.http is not None)
    # Looked at before it is loaded: what changes later is then noticed.
    watched = None if is_inline(source) else Watched.now(source, context)
    loaded = load_config(source, context)
    for warning in loaded.warnings:
        log.warning(warning)
    name = None if is_inline(source) else source
    return loaded.config, Setting(given=options.root, watched=watched), name


def _wrap(options: Namespace) -> int:
    if shutil.which(options.command) is None:
        raise StartError(
            f"wrap: there is no command {options.command!r}", "Install it, or write its whole path."
        )
    if options.shared:
        wanted = AttachOptions([options.command, *options.args])
        wanted.roots = options.root
        code = _attached_to(wanted, options.why_alone)
        if code is not None:
            return code
    # `wrap` replaces a client's own launch of the server, so the server inherits all variables.
    argv = [options.command, *options.args]
    config = config_from_command(argv, load_context(), environment="all")
    setting = Setting(given=options.root, log_file=log_file_of(options))
    run_loop(_serve_stdio, config, setting, None)
    return 0


async def _serve_stdio(
    config: HubConfig, setting: Setting, tell: Callable[[OperatorRoots], None] | None
) -> None:
    from hub.server.stdio import serve_stdio  # noqa: PLC0415 - not needed for HTTP

    async with (
        ended_by_signals() as shutdown,
        running_hub(config, replace(setting, is_for_one=True), shutdown=shutdown) as hub,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_stop, shutdown, tasks.cancel_scope)
        tasks.start_soon(answer_inquiries, hub, setting, shutdown)
        if tell is not None:
            tell(hub.services.operator.roots())
        await serve_stdio(ConnectionBuilder(hub.services))
        tasks.cancel_scope.cancel()
    ignore_ending_signals()


async def _stop(shutdown: Shutdown, scope: anyio.CancelScope) -> None:
    await shutdown.begun.wait()
    scope.cancel()


async def _serve_http(
    config: HubConfig,
    setting: Setting,
    address: str | socket.socket,
    what: Callable[[OperatorRoots], Served],
) -> None:
    from hub.server.http.app import HttpServer  # noqa: PLC0415 - as below
    from hub.server.http.bounds.forwarded import Proxies  # noqa: PLC0415 - as below
    from hub.server.http.serve import serve_http  # noqa: PLC0415 - loads the HTTP server, not needed for stdio

    host, port = _address(address, config)
    access = ClientAccess(host, config, os.environ)
    proxies = Proxies(config.listen.trusted_proxies)
    listener = _listener(host, port) if isinstance(address, str) else address
    bound = listener.getsockname()
    kept = _surviving_state(config.listen, f"{_served_config(setting)} {bound[0]} {bound[1]}")
    async with (
        ended_by_signals() as shutdown,
        running_hub(config, setting, shutdown=shutdown) as hub,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(answer_inquiries, hub, setting, shutdown)
        url = _url(host, bound[1], config.listen.path)
        app = HttpServer(
            ConnectionBuilder(hub.services, kept.seals, hub.own.profiles),
            access.check,
            path=config.listen.path,
            poll_after=config.listen.poll_after,
            proxies=proxies,
            ids=kept.ids,
            usage=_following(hub, config, access, proxies, url),
        )
        ready = partial(_announce, url, access.check, what(hub.services.operator.roots()))
        await serve_http(app, listener, drain=config.drain, ready=ready, shutdown=shutdown)
        tasks.cancel_scope.cancel()
    ignore_ending_signals()


def _show_pages(hub: Hub, access: ClientAccess, bound: str, config: HubConfig) -> None:
    """Serve the pages where principals log in, once a server of the config wants that."""
    logins = hub.logins
    if logins is None or logins.pages is not None:
        return
    if not any(map(is_for_principals, config.servers.values())):
        return
    from hub.app.login_pages import show_login_pages  # noqa: PLC0415 - few servers have logins

    show_login_pages(hub, logins, access, config.listen, bound)


def _following(
    hub: Hub, config: HubConfig, access: ClientAccess, proxies: Proxies, bound: str
) -> UsageByPrincipal:
    """Have what lets clients in follow the config; return what the principals use."""
    show = partial(_show_pages, hub, access, bound)
    show(config)
    hub.follow(access.follow)
    hub.follow(lambda changed: proxies.follow(changed.listen.trusted_proxies))
    limit_principals(hub, config)
    hub.follow(show)  # last: what the others refuse shows no pages
    return hub.usage


def _surviving_state(listen: Listen, serves: str) -> SurvivingState:
    from hub.server.http.adoption import surviving_state  # noqa: PLC0415 - not needed for stdio

    return surviving_state(
        this_machine(os.environ),
        keys=keys_in(listen),
        replica=listen.replica,
        adopts=listen.adopt,
        serves=serves,
    )


def _served_config(setting: Setting) -> str:
    """Return which config is served, or the folders, as text."""
    if setting.config_path is not None:
        return record_key(setting.config_path)
    return "\n".join([os.getcwd(), *setting.ceiling])  # noqa: PTH109 - as text


def _address(where: str | socket.socket, config: HubConfig) -> tuple[str, int]:
    """Return the host and port of a passed socket, else of `--http`, else of the config."""
    if not isinstance(where, str):
        return where.getsockname()[:2]
    if not where:
        return config.listen.host, config.listen.port
    host, _, port = where.rpartition(":")
    return host.strip("[]") or config.listen.host, int(port)


def _host_and_port(text: str) -> str:
    host, colon, port = text.rpartition(":")
    is_open = host.startswith("[") is not host.endswith("]")
    if text and (is_open or not colon or not port.isdecimal() or int(port) > LAST_PORT):
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT, like 127.0.0.1:8765")
    return text


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as exc:
        raise _no_listener(f"{host}:{port}", exc) from exc


def _no_listener(address: str, why: OSError) -> StartError:
    if isinstance(why, socket.gaierror) or why.errno == errno.EADDRNOTAVAIL:
        fix = "Choose an address of this machine with --http, or in listen.host."
    else:
        fix = "Free the port, or choose another one with --http."
    if os.environ.get("HUB_STARTED_BY") == "make run":
        port = int(address.rpartition(":")[2])
        another = port + 1 if port < LAST_PORT else port - 1
        fix = f"Free the port, or choose another address: make run LISTEN=127.0.0.1:{another}"
    said = why.strerror if isinstance(why, socket.gaierror) else os.strerror(why.errno or 0)
    return StartError(f"{address}: {said}", fix)


def _url(host: str, port: int, path: str) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - read, not bound
    return f"http://{shown}:{port}{path}"


def _announce(url: str, gatekeeper: AccessCheck, what: Served) -> None:
    from hub.server.http.open_requests import client_config  # noqa: PLC0415 - not needed for stdio

    print(f"roots-hub serves {url}", *what.lines(), sep="\n", flush=True)
    print(
        "For a client's config:",
        client_config(url, needs_token=gatekeeper.needs_token),
        sep="\n",
        flush=True,
    )
