"""Odd ways to write a path: each rewriting is one that somebody thought of to get past a guard."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from hypothesis import strategies as st

from tests.oracle.trees import TOP, TREES, PlantedWorld, Tree

Rewrite: TypeAlias = Callable[[str, int, PlantedWorld], str]
"""Rewrites a text in one of several manners."""


def _in_forms(*forms: str) -> Rewrite:
    """Put the text into one of these forms, in place of `{}`."""
    return lambda text, manner, _: forms[manner % len(forms)].replace("{}", text, 1)


def _nth(text: str, old: str, new: str, manner: int) -> str:
    """Replace one of the occurrences of a sign."""
    parts = text.split(old)
    if len(parts) == 1:
        return text
    at = 1 + manner % (len(parts) - 1)
    return old.join(parts[:at]) + new + old.join(parts[at:])


def _top(text: str, manner: int, world: PlantedWorld) -> str:
    """Begin with a directory that is left again: one that is empty, itself, missing, or real."""
    steps = ("/.", "/", "/nope/..", "//.", "/nope/.././x/..", f"{world.cwd}/.." + "/.." * 8)
    relative = ("./", ".//", "nope/../", "src/../", "./nope/.././", "src/deep/../../")
    if text.startswith("/"):
        return steps[manner % len(steps)] + text
    return relative[manner % len(relative)] + text


def _inner(text: str, manner: int, _: PlantedWorld) -> str:
    """Write a slash inside of a path in another manner."""
    signs = ("//", "/./", "/x/../", "///")
    return _nth(text, "/", signs[manner % len(signs)], manner // len(signs))


def _encoded(text: str, manner: int, _: PlantedWorld) -> str:
    """Encode all dots, slashes or letters, or one of them, once or twice."""
    percent = "%25" if manner % 2 else "%"
    which = manner // 2 % 5
    if which == 4:  # one character
        at = manner % max(1, len(text))
        return (
            text[:at]
            + "".join(f"{percent}{byte:02x}" for byte in text[at : at + 1].encode())
            + text[at + 1 :]
        )
    letters = (".", "/", "./", "".join(filter(str.isalpha, text)))[which]
    return "".join(
        f"{percent}{ord(sign):02X}" if sign in letters and sign.isascii() else sign for sign in text
    )


def _wide(text: str, manner: int, _: PlantedWorld) -> str:
    """Write dots or slashes by signs that normalising makes dots and slashes of."""
    signs = (
        *(("..", "\uff0e\uff0e"), ("/", "\uff0f"), ("..", "\u2025"), (".", "\u2024")),
        *(("..", ".\u200b."), (".", "\ufe52"), ("/", "\u2215"), ("..", ".\u00ad.")),
    )
    return text.replace(*signs[manner % len(signs)])


def _backslash(text: str, manner: int, _: PlantedWorld) -> str:
    return text.replace("/", "\\") if manner % 2 else _nth(text, "/", "\\", manner // 2)


def _home(text: str, manner: int, world: PlantedWorld) -> str:
    """Come from the home directory, or another that the environment names."""
    forms = (
        "$OUT/../",
        "${OUT}/../",
        "$HOME/../",
        "${HOME}/../",
        "~/../",
        "~/.ssh/../../",
        "$HOME/./../",
        "~//../",
    )
    rest = text.removeprefix(f"{world.top}/")
    if rest == text:
        return text
    return forms[manner % len(forms)] + rest


def _wild(text: str, manner: int, _: PlantedWorld) -> str:
    """Write a name as a pattern."""
    names = (
        *(("secret", "s*t"), ("secret", "secre?"), ("secret", "[s]ecret"), ("..", ".?")),
        *(("..", ".[.]"), ("secret", "{secret,x}"), ("private", "priv*"), ("etc", "e*c")),
        *(("private", "{private,x}"), ("..", "{..,.}"), ("..", "[.]."), ("secret.txt", "*")),
    )
    return text.replace(*names[manner % len(names)])


def _in_json(text: str, manner: int, _: PlantedWorld) -> str:
    """Write it as JSON."""
    forms = ([text], {"path": text}, {"item": [text]}, text, {text: "x"}, {"source": {"x": text}})
    return json.dumps(forms[manner % len(forms)], ensure_ascii=manner % 2 == 0)


def _unclean(text: str, manner: int, _: PlantedWorld) -> str:
    """Have a climb made by what takes climbs out, or signs that are in no name."""
    signs = ("....//", "..././", ".*./", ".<./", './"../')
    return text.replace("../", signs[manner % len(signs)])


def _between(text: str, manner: int, _: PlantedWorld) -> str:
    """Stand in a list."""
    signs = (",", ", ", "|", ";", " ", ":", "\n", "\t", "; ", "::")
    sign = signs[manner % len(signs)]
    if manner // len(signs) % 3 == 0:
        return f"{text}{sign}notes.txt"
    return f"notes.txt{sign}{text}"


REWRITES: dict[str, Rewrite] = {
    "another top": _top,
    "other slashes": _inner,
    "encoded": _encoded,
    "wide signs": _wide,
    "backslashes": _backslash,
    "from home": _home,
    "in a list": _between,
    "to be cleaned": _unclean,
    "quoted": _in_forms('"{}"', "'{}'", "`{}`", "<{}>", "“{}”", '"{}', "{}'", '{}"', "'{}"),
    "quoted in a list": _in_forms('"notes.txt" "{}"', "'notes.txt', '{}'", "\"a\" '{}'"),
    "in brackets": _in_forms("[{}]", "({})", "{{}}", "[notes.txt,{}]", "{notes.txt,{}}", "[{}"),
    "as JSON": _in_json,
    "given to an option": _in_forms(
        *("--file={}", "-o{}", "@{}", "-d@{}", "--x={}", "-I{}", "--data=@{}", "-o {}", "--x {}")
    ),
    "assigned": _in_forms("k={}", "if={}", "f=@{}", "a=b={}", "A={}", "file:={}"),
    "with a scheme": _in_forms(
        *("file://{}", "file:{}", "FILE://{}", "file://localhost{}", "File:{}", "file:///{}"),
        *("view-source:file://{}", "jar:file:{}!/x", "concat:{}", "concat:notes.txt|{}", "text:{}"),
        *("zip://a::{}", "zip://x.txt::file://{}", "simplecache::{}", "label:@{}", "sqlite:///{}"),
        *("subfile:,,start,0,end,0,,:{}", "url:file:{}", "local:{}", "netdoc:{}", "tar:{}"),
        *("zip+file://{}!x", "blob:file://{}", "http://../../{}", "sqlite:{}", "unix:{}"),
    ),
    "by default": _in_forms("${X:-{}}", "${X-{}}", "${HOME:+{}}", "${X:={}}"),
    "with an end": _in_forms(
        *("{} ", " {}", "{}\t", "{}/.", "{}#x", "{}?x", "{}\n", "{}//", "{}/", "{}:12", "{}#L1")
    ),
    "a pattern": _wild,
    "among words": _in_forms("see {}", "see {} now", "cat: {}", "from {} to x", "{} x"),
}


class Spelling(NamedTuple):
    """A way to what lies outside, and how it is rewritten, step by step."""

    way: str
    rewritings: tuple[tuple[str, int], ...]

    def written(self, world: PlantedWorld) -> str:
        """Return the text, in a tree that was planted."""
        text = self.way
        if f"{text}/".startswith(f"{TOP}/"):
            text = world.top + text.removeprefix(TOP)
        for name, manner in self.rewritings:
            text = REWRITES[name](text, manner, world)
        return text


class Attack(NamedTuple):
    """A tree, and ways through it."""

    tree: Tree
    spellings: tuple[Spelling, ...]


REWRITINGS = st.lists(
    st.tuples(st.sampled_from(sorted(REWRITES)), st.integers(0, 29)), max_size=3
).map(tuple)


@st.composite
def attacks(draw: st.DrawFn) -> Attack:
    """Draw a tree and ways through it to what lies outside."""
    tree = draw(TREES)
    spelling = st.builds(Spelling, st.sampled_from(tree.ways()), REWRITINGS)
    return Attack(tree, tuple(draw(st.lists(spelling, min_size=1, max_size=6))))
