"""What real shells make of command words: the arguments that a program would get from them.

Nothing is run but the `printf` and `eval` of the shell itself, without a PATH: it says which
words a program would be given, and the kernel is asked what is there. What has a sign that could
make a shell do more (redirect, run two things or in the background, substitute) is not put to one.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import chain as joined

from tests.oracle.keys import ProcessTree
from tests.oracle.openers import opened
from tests.oracle.promises import Opened, is_promised
from tests.oracle.trees import PlantedWorld

HARMLESS = re.compile(r"[^<>;&|`()\n\r\0\ud800-\udfff]{1,1000}")
SHELLS = ("dash", "bash")
PRINTED = r"printf '%s\0' "
END = r"printf '\1\0'" + "\n"
SECONDS = 20


class Shell:
    """One kind of shell; `name` is how it shows in what was found."""

    def __init__(self, name: str, program: str) -> None:
        self._name = name
        self._program = program

    def __call__(
        self, values: list[tuple[str, ProcessTree]], world: PlantedWorld
    ) -> Iterator[list[Opened]]:
        put = [self._command(*value) for value in values]
        asked = list(dict.fromkeys(text for text in put if text is not None))
        words = dict(zip(asked, self._words(asked, world), strict=True))
        for (value, family), text in zip(values, put, strict=True):
            given = words.get(text or "", ())
            yield list(
                joined.from_iterable(self._opened(value, word, family, world) for word in given)
            )

    @staticmethod
    def _command(text: str, family: ProcessTree) -> str | None:
        if family not in {"command", "args"} or not HARMLESS.fullmatch(text):
            return None
        # Node's `spawn` with `shell: true` joins the arguments by spaces.
        return text if family == "command" else f"cat {text}"

    def _opened(
        self, value: str, word: str, family: ProcessTree, world: PlantedWorld
    ) -> Iterator[Opened]:
        for found in opened(word, "args", world, depth=1):
            chain = (self._name, *found.chain)
            reached = found._replace(value=value, chain=chain)
            if is_promised(family, reached, world):
                yield reached

    def _words(self, commands: list[str], world: PlantedWorld) -> Iterator[list[str]]:
        """Yield the words of each command, by one shell with a subshell for each."""
        script = "".join(
            f"(eval {shlex.quote(PRINTED + command)}) 2>/dev/null\n{END}" for command in commands
        )
        done = subprocess.run(  # noqa: S603 - see above: what it can do is bounded
            [self._program],
            input=script.encode(),
            cwd=world.cwd,
            env={**world.env, "PATH": "", "LC_ALL": "C.UTF-8"},
            stdout=subprocess.PIPE,
            check=False,
            timeout=SECONDS,
        )
        for answer in done.stdout.split(b"\1\0")[: len(commands)]:
            yield [word.decode("utf-8", "replace") for word in answer.split(b"\0")[:-1]]
