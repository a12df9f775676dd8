"""Opens values as servers in Node do: in one process of Node for a whole run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from tests.oracle.keys import ProcessTree
from tests.oracle.openers import is_opened, made_of
from tests.oracle.promises import Chain, Opened, is_promised
from tests.oracle.trees import PlantedWorld

PROGRAM = Path(__file__).with_name("node_openers.cjs")
# What these openers do, in the words that `promises` knows.
MEANING = {
    "backslashes": "backslashes",
    "path.win32.normalize": "backslashes",
    "decodeURI": "decoded",
    "decodeURIComponent": "decoded",
    "decodeURIComponent, path.resolve": "decoded",
    "decoded twice": "decoded",
    "NFKC": "normalised",
    "new URL": "file URI",
    "fs.statSync of a URL": "file URI",
    "new URL below the directory": "relative URL",
}


class Node:
    """A process of Node that says what it reaches."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(
        self, values: list[tuple[str, ProcessTree]], world: PlantedWorld
    ) -> Iterator[list[Opened]]:
        for (_, family), found in zip(values, self._reached(values, world), strict=True):
            yield [opened for opened in found if is_promised(family, opened, world)]

    def reached(self, value: str, family: ProcessTree, world: PlantedWorld) -> list[Opened]:
        """Return all that a value reaches outside, also what nobody can promise."""
        return next(self._reached([(value, family)], world))

    def _reached(
        self, values: list[tuple[str, ProcessTree]], world: PlantedWorld
    ) -> Iterator[list[Opened]]:
        made = [self._made(*value) for value in values]
        texts = list(dict.fromkeys(text for one in made for text in one))
        answers = dict(zip(texts, self._ask(texts, world), strict=True))
        for (value, _), one in zip(values, made, strict=True):
            yield [
                Opened(value, (*chain, *self._meant(name), f"Node: {name}"), text, path, where)
                for text, chain in one.items()
                for name, path, where in answers[text]
            ]

    @staticmethod
    def _made(value: str, family: ProcessTree) -> dict[str, Chain]:
        made = made_of(value, family, 1)
        if family == "payload":
            return {value: ("file URI",)} if value.strip()[:5].lower() == "file:" else {}
        return {text: chain for text, chain in made.items() if is_opened(family, chain)}

    @staticmethod
    def _meant(name: str) -> Chain:
        return (MEANING[name],) if name in MEANING else ()

    def _ask(self, texts: list[str], world: PlantedWorld) -> Iterator[list[tuple[str, str, str]]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        question = {"cwd": world.cwd, "env": world.env, "texts": texts}
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        answer = cast("list[list[tuple[str, str, str, str]]]", json.loads(stdout.readline()))
        for one in answer:
            known = (
                (name, path, world.outside.get((int(device), int(inode))))
                for name, path, device, inode in one
            )
            yield [(name, path, found) for name, path, found in known if found is not None]


@contextmanager
def running(node: str) -> Generator[Node]:
    """Keep a process of Node, with nothing in its environment."""
    with subprocess.Popen(  # noqa: S603 - Node, with a program of ours
        [node, str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={},
    ) as process:
        try:
            yield Node(process)
        finally:
            process.kill()
