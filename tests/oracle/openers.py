"""What children make of a string before they open it, in Python: each step names who does so.

Nothing is read: the kernel is asked what is there.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, cast
from urllib.parse import unquote, unquote_plus, urlsplit
from urllib.request import url2pathname

from hub.values import Json
from tests.oracle.keys import ProcessTree, strings_in
from tests.oracle.promises import Chain, Opened, is_promised
from tests.oracle.trees import PlantedWorld

TEXTS: tuple[ProcessTree, ...] = ("path", "weak", "neutral")
NAMES: tuple[ProcessTree, ...] = (*TEXTS, "file key", "key")
NOT_GLOB: tuple[ProcessTree, ...] = (*NAMES, "command", "args")
ALL: tuple[ProcessTree, ...] = (*NOT_GLOB, "glob")
MOST_MATCHES = 50
LONGEST = 2000
REMOTE = {"http:", "https:", "ws:", "wss:", "ftp:", "data:", "mailto:", "file:"}
"""Schemes that nobody takes off to open the rest as a file; `file:` has a step of its own."""


class Step(NamedTuple):
    """One thing that some children do to a string, and under which kinds of keys."""

    name: str
    families: tuple[ProcessTree, ...]
    texts: Callable[[str], Iterable[str]]


def _decoded(text: str) -> Iterable[str]:
    """urllib.parse: web frameworks decode a query or a URI template once, and some twice."""
    return (unquote(text), unquote_plus(text))


def _normalised(text: str) -> Iterable[str]:
    """unicodedata: werkzeug.utils.secure_filename, slugs, and what cleans up a model's text."""
    plain = unicodedata.normalize("NFKC", text)
    return (plain, re.sub("[\u00ad\u200b-\u200f\u2060\ufeff]", "", plain))


def _stripped(text: str) -> Iterable[str]:
    """str.strip: whoever reads a line of a model's answer."""
    return (text.strip(),)


def _slashed(text: str) -> Iterable[str]:
    """str.replace: servers that run on Windows too and keep one form of paths inside."""
    return (text.replace("\\", "/"),)


def _unquoted(text: str) -> Iterable[str]:
    """Whoever takes the quotes off that a model put around a path: mismatched and half ones too."""
    return (text.strip().strip("\"'`<>“”"),)


def _quoted(text: str) -> Iterable[str]:
    """Whoever takes each quoted piece of a text for one file, as dropped names in a terminal."""
    return (match[1] for match in re.finditer(r"[\"'`“<]([^\"'`”>]+)", text))


def _expanded(text: str) -> Iterable[str]:
    """os.path: expandvars and expanduser, in either order, as configuration readers do."""
    # What servers call; pathlib's expanduser would tidy the rest of the path.
    home = os.path.expanduser
    return (home(text), os.path.expandvars(home(text)), home(os.path.expandvars(text)))


def _default(text: str) -> Iterable[str]:
    """`${X:-y}` of docker compose, OmegaConf's and envsubst's kin; X is not set."""
    for match in re.finditer(r"\$\{\w+(?::?[-=+?])([^}]*)\}", text):
        yield text[: match.start()] + match[1] + text[match.end() :]


def _file_uri(text: str) -> Iterable[str]:
    """urllib.request.url2pathname: the MCP SDKs' `file:` URIs, and pathlib.Path.from_uri."""
    bare = text.strip()
    if bare[:5].lower() == "file:" and len(bare.split()) == 1:
        for uri in (bare, bare.partition("#")[0], bare.partition("?")[0]):
            try:
                yield url2pathname(urlsplit(uri).path)
            except ValueError:
                continue
            yield re.sub(r"^file:(?://(?=/))?", "", uri, flags=re.IGNORECASE)
            yield re.sub(r"^file://(?:localhost)?", "", uri, flags=re.IGNORECASE)


def _scheme(text: str) -> Iterable[str]:
    """What stands behind a scheme: ffmpeg's `concat:`, ImageMagick's `text:`, fsspec's `a::b`."""
    match = re.match(r"[a-zA-Z][\w+.-]+:", text.strip())
    if match and match[0].lower() not in REMOTE:
        rest = text.strip()[match.end() :]
        yield from (rest, rest.removeprefix("//"), rest.removeprefix("///"), rest.lstrip(":,"))
        yield rest.rpartition(":")[2]
    if "::" in text:
        yield from text.split("::")
    if "!" in text:
        yield text.partition("!")[0]
    if "://" in text or text.lower().startswith("file:"):
        yield from (text.partition("#")[0], text.partition("?")[0])


def _listed(text: str) -> Iterable[str]:
    """str.split: lists in one string, as argparse, Click and ffmpeg take them."""
    for sign in (",", ";", "|"):
        if sign in text:
            yield from (part.strip() for part in text.split(sign))
    # A list of directories, as in PATH.
    if re.search(r":(?:[/~]|\.\.)", text) and "://" not in text:
        yield from text.split(":")


def _bracketed(text: str) -> Iterable[str]:
    """A list that is written as in YAML or TOML, with names that are not quoted."""
    bare = text.strip()
    return (bare[1:-1],) if bare[:1] == "[" and bare[-1:] == "]" else ()


def _in_lines(text: str) -> Iterable[str]:
    """str.splitlines: one path to a line, as `xargs`, `tar -T` and file lists have them."""
    return text.splitlines() if re.search(r"[\r\n\t]", text) else ()


def _in_words(text: str) -> Iterable[str]:
    """str.split and shlex.split: command lines that no shell is asked to take apart."""
    yield from text.split()
    try:
        yield from shlex.split(text)
    except ValueError:
        return


def _assigned(text: str) -> Iterable[str]:
    """`k=v` of dd and curl's forms, the file of `@file` in argparse and curl."""
    if "=" in text:
        yield text.partition("=")[2]
    if text[:1] in "@+!:":
        yield text[1:]
    if "=@" in text:
        yield text.partition("=@")[2]


def _option(text: str) -> Iterable[str]:
    """The value of a short option that stands at its letter, or of a long one: getopt."""
    if match := re.match(r"-[a-zA-Z](?=.)", text):
        yield text[match.end() :]
        yield text[match.end() :].removeprefix("@")
    if text[:1] == "-" and " " in text:
        yield text.partition(" ")[2]


def _cleaned(text: str) -> Iterable[str]:
    """Whoever drops `../` once, or what Windows forbids, as pathvalidate's sanitize_filepath."""
    return (text.replace("../", ""), re.sub(r'[<>"?*]', "", text))


def _braces(text: str) -> Iterable[str]:
    """The alternatives of braces: bash, node-glob, wcmatch, Rust's globset."""
    if match := re.search(r"\{([^{}]*,[^{}]*)\}", text):
        for way in match[1].split(","):
            yield text[: match.start()] + way + text[match.end() :]


def _in_json(text: str) -> Iterable[str]:
    """json.loads: servers take structures as strings, for clients that cannot send others."""
    if text.lstrip()[:1] not in {"[", "{", '"'}:
        return ()
    try:
        return strings_in(cast("Json", json.loads(text)))
    except (ValueError, RecursionError):
        return ()


STEPS = (
    Step("decoded", ALL, _decoded),
    Step("normalised", ALL, _normalised),
    Step("stripped", ALL, _stripped),
    Step("backslashes", ALL, _slashed),
    Step("unquoted", ALL, _unquoted),
    Step("quoted", ("path", "weak", "command", "args"), _quoted),
    Step("expanded", ALL, _expanded),
    Step("by default", ("path", "weak", "command", "args"), _default),
    Step("file URI", (*ALL, "payload"), _file_uri),
    Step("scheme", ALL, _scheme),
    Step("list", ALL, _listed),
    Step("list", TEXTS, _bracketed),
    Step("lines", ALL, _in_lines),
    Step("words", NOT_GLOB, _in_words),
    Step("assigned", ALL, _assigned),
    Step("option", ALL, _option),
    Step("braces", ("path", "glob", "command", "args"), _braces),
    Step("JSON", (*TEXTS, "args"), _in_json),
    Step("cleaned", ("path",), _cleaned),
)
STEPS_OF = {
    family: tuple(step for step in STEPS if family in step.families) for family in (*ALL, "payload")
}


def made_of(text: str, family: ProcessTree, depth: int) -> dict[str, Chain]:
    """Return what children make of a string in at most so many steps, and how."""
    found: dict[str, Chain] = {text: ()}
    fresh = dict(found)
    for _ in range(depth):
        next_ones: dict[str, Chain] = {}
        for one, chain in fresh.items():
            for step in STEPS_OF[family]:
                for made in step.texts(one):
                    if made and made not in found and len(made) < LONGEST and "\0" not in made:
                        found[made] = next_ones[made] = (*chain, step.name)
        fresh = next_ones
    return found


def opened(text: str, family: ProcessTree, world: PlantedWorld, depth: int = 2) -> Iterator[Opened]:
    """Yield what is reached outside by a value under a key of some kind, and may not be."""
    return (
        found for found in reached(text, family, world, depth) if is_promised(family, found, world)
    )


def reached(
    text: str, family: ProcessTree, world: PlantedWorld, depth: int = 2
) -> Iterator[Opened]:
    """Yield all that is reached outside, also what nobody can promise."""
    for made, how in made_of(text, family, depth).items():
        if is_opened(family, how):
            for last, path in _paths(made, family, world):
                found = world.leads_out(path)
                if found is not None:
                    yield Opened(text, (*how, last), made, path, found)


def is_opened(family: ProcessTree, chain: Chain) -> bool:
    """Return whether a string is opened when this was done to it.

    A command is taken apart into words first, and of a text only a URI is opened.
    """
    return family not in {"command", "payload"} or chain[:1] in {("words",), ("file URI",)}


def _paths(text: str, family: ProcessTree, world: PlantedWorld) -> Iterator[tuple[str, str]]:
    """Yield the paths that are opened at last, and how."""
    path = text if text.startswith("/") else f"{world.cwd}/{text}"
    yield "opened", path
    # os.path.abspath before the open, as Node's path.resolve and Go's filepath.Clean do.
    yield "normpath", os.path.normpath(path)
    # pathlib.Path.resolve is the same.
    yield "realpath", _real(path)
    if family in {"path", "weak"} and text.startswith("/"):
        # Go's filepath.Join and Node's path.join put an absolute path below a directory. Under
        # other keys an absolute path whose top is nowhere is a route of some API.
        yield "joined", os.path.normpath(f"{world.cwd}/{text}")
    if family in {"glob", "path"} and re.search(r"[*?\[]", text) and "**" not in text:
        for match in islice(glob.iglob(path), MOST_MATCHES):  # noqa: PTH207 - what servers call
            yield "glob", match


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path
