"""Judge one value: follow each of its texts on the disk, and find the objections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial

from msgspec.structs import replace

from hub.guard.arguments import PathCandidate, escaped
from hub.guard.budget import FULL_BUDGET, Budget, Meter, TooMuchError
from hub.guard.candidate_texts import ONE_NAME, CandidateTexts
from hub.guard.containment import CallContext, PathTracer, ReadingResult
from hub.guard.keys.key_words import LONGEST_KEY, is_revision, takes_arguments
from hub.guard.keys.nodes import FOR_SHELL, IN_CONTAINER
from hub.guard.keys.vocabulary import Kind
from hub.guard.local_paths import SHORTEST_ENCODED, WILDCARD, LocalPaths, doubt_about, is_encoded
from hub.guard.named_folders import NamedFolders
from hub.guard.own_files import OwnFileRules
from hub.guard.plain_paths import reads_as_one_path
from hub.guard.policy import Policy
from hub.guard.text.inert.parts import without_lines
from hub.guard.text.readings import Reader, readings
from hub.guard.text.sure_commands import script_of
from hub.paths.resolve import PATH_MAX, Flavour, PathError
from hub.values import Call, Json, JsonObject

_WEIGHT = 128  # so many characters count as one more reading
_RUN_INSIDE = re.compile(
    r"(?!(?:(?:sudo|env|time)(?: -[\w-]+)* )?(?:[\w.-]+@|(?:[\w./]*/)?(?:docker|podman|nerdctl|oc"
    r"|kubectl|helm|ssh|scp|sftp|rsync|adb|push|pull)(?:[.-]\w+)?(?: |$)))[\w./][\w./:=@,%+ -]*",
    re.ASCII,
)
"""Plain words that are no command for what leads to the container, and no options of it."""
_QUOTING = re.compile(r"['\"\\]")
_FIRST_REMARKS = re.compile(
    # Not `#!/bin/cat x`; and a terminal, or what splits lines, may end one in other ways.
    r"\A(?:[ \t\r\n]*#(?!!)[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029;&|<>()$`\\]*\r?\n)+"
)
_CLIMBING = re.compile(r"(?:^|[^\w.])(?:\\?\.){2}(?:$|[^\w.])")


class Judge:
    """Judges the path candidates of one call, within `budget`.

    `candidates` are all of the call: a value may start in a folder that another one names.
    `leads_to` is where the reading leads that was objected to last; None if it was not followed.
    """

    def __init__(  # noqa: PLR0913 - a judge needs them all
        self,
        context: CallContext,
        policy: Policy,
        *,
        needs_write: bool,
        budget: Budget = FULL_BUDGET,
        reach: OwnFileRules | None = None,
        moves_folders: bool = False,
        candidates: Sequence[PathCandidate] = (),
    ) -> None:
        self._policy = policy
        self._posix = context.flavour is not Flavour.WINDOWS
        self._tracer = PathTracer(
            context,
            policy,
            needs_write=needs_write,
            most=budget.effort,
            reach=reach,
            moves_folders=moves_folders,
        )
        folders = tuple([root.path for root in context.roots.roots])
        self._reader = reader = Reader(context.env, context.flavour, folders=folders)
        posix = self._posix
        local_paths = LocalPaths(self._tracer, reader, posix, policy.paths == "local")
        self._local_paths = local_paths
        self._texts = CandidateTexts(self._tracer, reader, posix, local_paths)
        self._folders = NamedFolders(candidates, self._tracer, reader)
        self.leads_to: str | None = None
        self._to_read = Meter(budget.readings, "there is too much to judge")

    @property
    def is_spent(self) -> bool:
        """Whether the budget was used up: a larger one may lead to another result."""
        return min(self._to_read.left, self._tracer.effort.left) < 0

    def objection(self, candidate: PathCandidate) -> str | None:
        """Return the first objection to a value, or None."""
        value = candidate.value
        if (
            candidate.kind is Kind.PATH
            and isinstance(value, str)
            and len(value) < SHORTEST_ENCODED
            and self._posix
            and reads_as_one_path(value)
            and not self._policy.deny.lines
            and self._policy.paths == "local"
        ):
            # The value reads in one way only: its readings need not be listed.
            objection = self._tracer.objection(value)
            self.leads_to = self._tracer.known.get(value)
            return objection
        for evaluated in self.evaluate(candidate):
            if evaluated.objection is not None:
                self.leads_to = evaluated.leads_to
                return evaluated.objection
        return None

    def evaluate(self, candidate: PathCandidate) -> Iterator[ReadingResult]:
        """Yield the result of each reading of a value."""
        value = candidate.value
        if not isinstance(value, str):
            yield ReadingResult(_shown(value), "as given", None, "a number is not a path")
            return
        if self._policy.refuse_options and is_option(candidate):
            yield ReadingResult(
                value,
                "as given",
                None,
                "a revision must not begin with '-': the program would read it as an option",
            )
            return
        if candidate.kind is Kind.PATH and is_encoded(value):
            candidate = replace(candidate, kind=Kind.WEAK)
        self._tracer.beside = cache(partial(self._folders.beside, candidate))
        self._tracer.around = cache(partial(self._folders.around, candidate))
        try:
            if candidate.is_repeated and not self._tracer.beside():
                return
            for text, how, kind in self._texts.of(candidate, self._as_run(candidate, value)):
                if how is not ONE_NAME:
                    self._to_read.spend(1 + len(text) // _WEIGHT)
                yield from self._evaluate_text(text, how, kind, value)
        except PathError as exc:
            yield ReadingResult(value, "as given", None, exc.reason)

    def refused_text(self, candidate: PathCandidate) -> str:
        """Return the text of a refused value, of a command the first word that is objected to.

        That is the whole command if no single word of it is refused, or if finding it takes too
        long.
        """
        command = candidate.value
        if not isinstance(command, str):
            return json.dumps(command, default=str)
        if candidate.kind is not Kind.COMMAND:
            return command
        plain = _QUOTING.sub("", command)
        try:
            run = self._as_run(candidate, command)
            for word, texts in self._texts.words_of_command(run):
                # What a shell would make of a variable is not for the client to read, nor where the
                # hub lets `..` start.
                is_given = word in command or word in plain
                shown = word if is_given else word[max(0, word.find("..")) :]
                if word == command or not (shown in command or shown in plain):
                    continue
                if self._objects_to(word, texts):
                    return shown or command
        except PathError:
            pass
        return command

    def _objects_to(self, word: str, texts: Iterator[tuple[str, str, Kind]]) -> bool:
        try:
            for text, how, kind in texts:
                self._to_read.spend(1 + len(text) // _WEIGHT)
                results = self._evaluate_text(text, how, kind, word)
                if any(one.objection is not None for one in results):
                    return True
        except TooMuchError:
            raise
        except PathError:
            return True
        return False

    def misread_root(self, path: str) -> str:
        """Return how else a program may read the root's path that `path` begins with, or nothing.

        Only readings that are refused: then no path below that root passes.
        """
        reader = replace(self._reader, as_shell=True, is_path=True)
        for folder in (one for one in reader.folders if path.startswith(one)):
            try:
                for text, how in readings(f"{folder}/x", reader).items():
                    if any(one.objection for one in self._tracer.follow(text, how, strict=True)):
                        return text.removesuffix("/x")
            except PathError:
                return folder
        return ""

    def canonical(self, candidate: PathCandidate) -> str | None:
        """Return the resolved path of an absolute `Kind.PATH` value that has one reading only.

        None for any other value.
        """
        if candidate.kind is not Kind.PATH or not isinstance(candidate.value, str):
            return None
        evaluated = list(self.evaluate(candidate))
        if len(evaluated) != 1 or not self._tracer.is_absolute(candidate.value):
            return None
        return evaluated[0].leads_to

    def _as_run(self, candidate: PathCandidate, value: str) -> str:
        """Return a value; of a command without the remarks that it starts with.

        What runs in a container is behind the words that start it there. Without a shell there is
        no program called `#`, unless another argument names the program. Of `bash -c '...'` the
        script, and of a command for a shell all but the lines that it writes to files.
        """
        if candidate.kind is not Kind.COMMAND:
            return value
        if candidate.why is IN_CONTAINER and _RUN_INSIDE.fullmatch(value):
            return f"docker exec x {value}"
        if not (candidate.is_element or takes_arguments(candidate.key[-LONGEST_KEY:])):
            value = _FIRST_REMARKS.sub("", value)
            value = script_of(value) if self._posix else value
        return without_lines(value) if "<<" in value and candidate.why is FOR_SHELL else value

    def _evaluate_text(
        self, text: str, how: str, kind: Kind, value: str
    ) -> Iterator[ReadingResult]:
        doubt = doubt_about(text, kind)
        if doubt is not None:
            yield ReadingResult(text, how, None, doubt)
        elif kind is Kind.PATH:
            if text.strip() and not self._local_paths.is_elsewhere(text, value):
                yield from self._tracer.follow(text, how, strict=True)
        elif kind is Kind.GLOB:
            yield from self._evaluate_glob(text, how, value)
        elif self._local_paths.is_meant(text, kind, value):
            yield from self._tracer.follow(text, how, strict=False)
        elif text[:1] == "/" and self._policy.paths == "local" and text.strip("/. "):
            # Some servers read `/name` as a path below a root.
            yield from self._tracer.follow(text.lstrip("/"), how, strict=False)

    def _evaluate_glob(self, text: str, how: str, value: str) -> Iterator[ReadingResult]:
        names = (text if self._posix else text.replace("\\", "/")).split("/")
        wild = next((n for n, name in enumerate(names) if WILDCARD.search(name)), len(names))
        if any(_CLIMBING.search(name) for name in names[wild:]):
            yield ReadingResult(text, how, None, "it has '..' after a wildcard")
            return
        absolute = text[:1] == "/"
        static = "/".join(names[:wild]) or ("/" if absolute else "")
        if self._local_paths.is_elsewhere(static, static):
            return
        if absolute and not static.strip("/."):
            first = names[wild] if wild < len(names) else ""
            meant = self._local_paths.is_top_pattern(text, first, how, value)
        else:
            meant = bool(static) and self._local_paths.is_meant(static, Kind.NEUTRAL, static)
        if meant:
            yield from self._tracer.follow(static, how, strict=False)
        is_name = self._posix and wild < len(names) and len(text) < PATH_MAX
        if is_name and self._local_paths.is_meant(text, Kind.NEUTRAL, text):
            # Characters like `*` may be part of a real file name.
            yield from self._tracer.follow(text, how, strict=False)


def is_option(candidate: PathCandidate) -> bool:
    """Return whether a program may read the name of a revision as an option."""
    value = candidate.value
    starts = isinstance(value, str) and value[0] == "-"
    return starts and is_revision(candidate.key[-LONGEST_KEY:])


def _shown(value: object) -> str:
    return str(value) if isinstance(value, int | float | Decimal) else type(value).__name__


def rewritten(call: Call, values: Mapping[str, str]) -> Call:
    """Return `call` with the strings at these JSON pointers into its arguments replaced.

    A pointer into JSON that is itself inside a string has no effect.
    """
    if not values or call.params.get("arguments") is not call.arguments:
        return call
    arguments: JsonObject = {
        key: _replaced(member, f"/{escaped(key)}", values) for key, member in call.arguments.items()
    }
    return replace(call, arguments=arguments, params={**call.params, "arguments": arguments})


def _replaced(value: Json, pointer: str, values: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return values.get(pointer, value)
    if isinstance(value, dict):
        return {
            key: _replaced(member, f"{pointer}/{escaped(key)}", values)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [
            _replaced(member, f"{pointer}/{index}", values) for index, member in enumerate(value)
        ]
    return value
