"""Where code goes and how much of it: the rules a reviewer should not have to repeat."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from symtable import symtable
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).parent.parent
IMPORT = re.compile(
    r"^ *from ((?:hub|tests)\b[\w.]*) import (?:\(([^)]*)\)|([\w, ]+))", re.MULTILINE
)
"""From which of our modules what is imported; also in a program that a test writes."""
FUNCTION_LINES = 40
MODULE_LINES = 400
FOLDER_FILES = 15
PATCHES = 40
PACKAGE_LINES = range(8, 21)
UNMIRRORED = {"clients", "conformance", "flow", "kit", "live", "oracle", "seeds"}
"""Folders of tests that are about more than one package, or help the others."""
NAMELESS = {"util", "utils", "helper", "helpers", "misc", "common"}
VAGUE_ENDINGS = ("Manager", "Handler", "Helper")

PACKAGES = sorted(path.parent for path in (PROJECT / "hub").rglob("*/__init__.py"))
MODULES = sorted((PROJECT / "hub").rglob("*.py"))
TESTS = sorted((PROJECT / "tests").rglob("*.py"))


def short(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


class ModuleShape(NamedTuple):
    """What the tests below ask of a module: each is read once for all of them."""

    lengths: list[tuple[str, int]]
    """Of its functions, in lines."""
    classes: list[str]
    texts: list[str | bytes]
    words: list[str]
    """The classes and type aliases that other modules may import."""


def words_of(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)


@cache
def shown(module: Path) -> ModuleShape:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    public = [word for word in words_of(tree) if not word.startswith("_")]
    found = ModuleShape([], [], [], public)
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text) | bytes(text)):
                found.texts.append(text)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.lengths.append((name, (node.end_lineno or node.lineno) - node.lineno + 1))
            case ast.ClassDef():
                found.classes.append(node.name)
            case _:
                continue
    return found


def test_a_function_stays_in_its_budget() -> None:
    lengths = [(short(module), *one) for module in MODULES for one in shown(module).lengths]
    assert [one for one in lengths if one[-1] > FUNCTION_LINES] == []


def test_a_module_can_be_read_at_one_sitting() -> None:
    lengths = {short(one): len(one.read_text(encoding="utf-8").splitlines()) for one in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_class_has_a_name_that_says_nothing() -> None:
    classes = [f"{short(module)}: {name}" for module in MODULES for name in shown(module).classes]
    assert [name for name in classes if name.endswith(VAGUE_ENDINGS)] == []


@cache
def defined_in(module: Path) -> frozenset[str]:
    table = symtable(module.read_text(encoding="utf-8"), short(module), "exec")
    bound = (name for name in table.get_symbols() if name.is_assigned())
    return frozenset(name.get_name() for name in bound if not name.is_imported())


def is_defined(package: str, name: str) -> bool:
    place = PROJECT.joinpath(*package.split("."))
    if (place / f"{name}.py").is_file() or (place / name).is_dir():
        return True
    return name in defined_in(place / "__init__.py" if place.is_dir() else place.with_suffix(".py"))


def imports_of(module: Path) -> Iterator[tuple[str, str]]:
    for source, several, one in IMPORT.findall(module.read_text(encoding="utf-8")):
        for name in re.sub(r"#.*| as \w+", "", several or one).replace(",", " ").split():
            yield source, name


@pytest.mark.long
def test_a_name_is_imported_from_the_module_that_defines_it() -> None:
    elsewhere = [
        f"{short(module)}: {source}.{name}"
        for module in MODULES + TESTS
        for source, name in imports_of(module)
        if not is_defined(source, name)
    ]
    assert elsewhere == []


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5, which Debian 12 has, lets such patterns match what they do not say."""
    repeated = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+|\(\?>")
    found = [
        f"{short(module)}: {text}"
        for module in MODULES
        for text in shown(module).texts
        if repeated.search(text if isinstance(text, str) else text.decode())
    ]
    assert found == ["hub/paths/file_uris.py: /-._~!$&'()*+,;=:@"]


def test_no_module_is_a_drawer_for_leftovers() -> None:
    assert [short(path) for path in MODULES + TESTS if path.stem in NAMELESS] == []


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in MODULES + TESTS}
    assert [short(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


@cache
def words() -> Counter[str]:
    return Counter(word for module in MODULES for word in shown(module).words)


def test_one_word_means_one_thing() -> None:
    assert [word for word, times in words().items() if times > 1] == []


def test_no_two_classes_of_the_tests_share_a_name() -> None:
    """One that is the same is in tests/kit/; one that is not says what it is."""
    opening = re.compile(
        r"^ *class (\w+)", re.MULTILINE
    )  # also one in a program that a test writes
    places: dict[str, list[str]] = {}
    for module in TESTS:
        for name in opening.findall(module.read_text(encoding="utf-8")):
            places.setdefault(name, []).append(short(module))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("package", PACKAGES, ids=short)
def test_a_package_is_a_room_and_not_a_hall(package: Path) -> None:
    files = [path for path in package.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= FOLDER_FILES


@pytest.mark.parametrize("package", PACKAGES, ids=short)
def test_a_package_says_what_it_is_for(package: Path) -> None:
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    assert len((ast.get_docstring(tree) or "").splitlines()) in PACKAGE_LINES
    assert len(tree.body) == 1, "names are imported from the file that defines them"


@pytest.mark.parametrize("package", PACKAGES, ids=short)
def test_a_package_names_each_of_its_files_and_types_that_there_are(package: Path) -> None:
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    said = ast.get_docstring(tree) or ""
    files = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    inside = files | {path.parent.name for path in package.glob("*/__init__.py")}
    assert [name for name in inside if not re.search(rf"\b{name}\b", said)] == []
    assert [name for name in re.findall(r"`([A-Z][a-z]\w+)`", said) if name not in words()] == []


def test_tests_are_in_folders_like_those_of_the_packages() -> None:
    folders = {path.parent.relative_to(PROJECT / "tests").as_posix() for path in TESTS}
    packages = {path.relative_to(PROJECT / "hub").as_posix() for path in PACKAGES}
    assert {one for one in folders if one.partition("/")[0] not in UNMIRRORED} <= {*packages, "."}


def test_few_tests_replace_what_the_hub_calls() -> None:
    """A test that does holds how the hub works: ask for what it does, by real means, if you can."""
    patch = re.compile(r"\bmonkeypatch\.setattr\b|\bunittest\b")
    times = {short(path): len(patch.findall(path.read_text(encoding="utf-8"))) for path in TESTS}
    assert sum(times.values()) <= PATCHES, [path for path in times if times[path]]


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md"])
def test_a_page_names_what_is_there(page: str) -> None:
    text = (PROJECT / "docs" / page).read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:hub|tests)/[\w/.]*)`", text))
    names = set(re.findall(r"`([A-Z][a-z]\w+)(?:\.\w+)?`", text))
    assert paths | names
    assert [path for path in paths if not (PROJECT / path).exists()] == []
    assert [name for name in names if name not in words()] == []


def test_the_architecture_shows_every_package() -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [short(path) for path in PACKAGES if f"`{short(path)}/`" not in text] == []
