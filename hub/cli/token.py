"""`roots-hub token new NAME`: make a token for a client over HTTP."""

from __future__ import annotations

import json
import secrets
import sys
from argparse import ArgumentTypeError, Namespace
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from hub.cli.options import Subparsers
from hub.config.listening.listen import NamedToken
from hub.errors import UsageError
from hub.protocol.http_headers import token_hash

_PREFIX = "rh_"
"""What tokens begin with: whoever finds one in a log or a repository sees what it is."""
_BYTES = 32
_MOST_DAYS = 36_500


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `token` with its subcommand."""
    commands = subparsers.add_parser("token", help="make tokens for clients over HTTP")
    kinds = commands.add_subparsers(title="commands", metavar="COMMAND", required=True)
    new = kinds.add_parser("new", help="make a token: print it once, with the line for hub.yaml")
    new.add_argument("name", metavar="NAME", help="who gets it; the audit log has this name")
    new.add_argument(
        "--days",
        type=_days,
        metavar="N",
        help="it lasts N days, to the end of the last one in UTC; default: for ever",
    )
    new.add_argument("--json", action="store_true", help="print JSON")
    new.set_defaults(perform=_new)


def _new(options: Namespace) -> int:
    """Print a new token on stdout, and what the hub must be told on stderr."""
    token = f"{_PREFIX}{secrets.token_urlsafe(_BYTES)}"
    made = {"name": options.name, "sha256": token_hash(token)}
    if options.days is not None:
        made["expires"] = str(datetime.now(UTC).date() + timedelta(options.days))
    try:
        NamedToken.model_validate(made)
    except ValidationError as exc:
        why = str(exc.errors()[0]["msg"]).removeprefix("Value error, ")
        fix = "Choose another one, such as ci or anna@example.com."
        raise UsageError(f"{options.name!r}: {why}", fix) from None
    if options.json:
        print(json.dumps({**made, "token": token}, indent=2))
        return 0
    print(token, flush=True)
    quoted = {**made, "sha256": f'"{made["sha256"]}"'}
    print(
        f"The token of {options.name}, shown only now. For hub.yaml, where only its hash is:",
        "listen:",
        "  tokens:",
        f"    - {{{', '.join(f'{key}: {value}' for key, value in quoted.items())}}}",
        sep="\n",
        file=sys.stderr,
    )
    return 0


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MOST_DAYS):
        raise ArgumentTypeError(f"{text!r} is not a number of days, from 1 to {_MOST_DAYS}")
    return int(text)
