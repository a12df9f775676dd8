import os
import re
from decimal import Decimal
from pathlib import Path

import pytest

from hub.guard.arguments import PathCandidate
from hub.guard.budget import Budget, TooMuchError
from hub.guard.containment import OUTSIDE, CallContext
from hub.guard.judge import Judge
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import DenyPatterns, Policy
from hub.roots.roots import UnsafePaths
from hub.values import Json
from tests.kit.trees import PROJECT, plant
from tests.kit.worlds import POSIX, context, on_windows, share

PATH, GLOB, WEAK, NEUTRAL = Kind.PATH, Kind.GLOB, Kind.WEAK, Kind.NEUTRAL
PAYLOAD, COMMAND, VIRTUAL = Kind.PAYLOAD, Kind.COMMAND, Kind.VIRTUAL


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    links = ("project/evil => ../private", "project/pl => /proc/self")
    return plant(tmp_path_factory.mktemp("top"), *PROJECT, *links)


@pytest.fixture
def world(top: Path) -> CallContext:
    home = {"HOME": f"{top}/home"}
    return context(share(top / "project", top / "docs"), top / "project", env=home)


def objection(
    world: CallContext, kind: Kind, value: Json, policy: Policy | None = None
) -> str | None:
    judge = Judge(world, policy or Policy(), needs_write=True)
    return judge.objection(PathCandidate("/k", "k", kind, value, ""))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (PATH, "a.txt"),
        (PATH, "  "),
        (PATH, "a b.txt"),
        (GLOB, "src/**/*.ts"),
        (GLOB, "**/x"),
        (GLOB, "/no-such/**"),
        (GLOB, "!dist/**"),
        (WEAK, "word"),
        (WEAK, "//button[@id='x']"),
        (WEAK, "https://example.com/../x"),
        (WEAK, "fileb://a.txt"),
        (WEAK, "socket://host:7777"),
        (NEUTRAL, "vscode://ms-python.python/etc"),
        (NEUTRAL, "https://example.com/?file=../../../../../x"),
        (NEUTRAL, "https://example.com/#../../../../../x"),
        (GLOB, "https?://[^/]+/etc"),
        (GLOB, "{src,tests}/**/*.ts"),
        (GLOB, "!{dist,build}/**"),
        (GLOB, "src/(group)/**"),
        (GLOB, "@(a|b)/etc/*.js"),
        (GLOB, "{a,b}/etc/**"),
        (GLOB, r"function\s+\w+\("),
        (GLOB, r"\w+\s*=\s*\w+"),
        (GLOB, r"\bfoo\s*\+\s*\w+"),
        (GLOB, r"=>\s*\{"),
        (GLOB, r"[a-z]+\.[a-z]+"),
        (GLOB, r"\d{4}-\d{2}"),
        (GLOB, r"</?\w+>"),
        (GLOB, 'href="/.*"'),
        (GLOB, r"//\s*TODO"),
        (GLOB, r"\$\{.*\}"),
        (NEUTRAL, "archive://2024/notes"),
        (PATH, "res://home/main.tscn"),
        (NEUTRAL, "res://src/main.tscn"),
        (PATH, "res://"),
        (WEAK, "tarfs://src/x.tar"),
        (WEAK, "zipfile://src/x.zip!b"),
        (PATH, r'"src\test"'),
        (NEUTRAL, r'"a\nb"'),
        (NEUTRAL, "delta:///no-such/x"),
        (NEUTRAL, "sqlite:///db.sqlite3"),
        (NEUTRAL, "sqlite://db.sqlite3"),
        (PATH, "sqlite://:memory:"),
        (PATH, "sqlite://db.sqlite3"),
        (PATH, "local://no-such/x"),
        (WEAK, "unix://no-such.sock"),
        (COMMAND, "docker run -v data:/etc/x -w /etc alpine ls"),
        (COMMAND, "echo 'see what is new in data'"),
        (COMMAND, "git commit -m 'See evil now'"),
        (COMMAND, "docker exec c cat /etc/os-release"),
        (COMMAND, "docker exec -it -u root -w /srv c sh -c 'ls /etc' | head"),
        (COMMAND, "docker compose exec -T web ls /usr/share/x && npm test"),
        (COMMAND, 'docker run --rm -v "$PWD":/src -e A=1 alpine:3 ls -l "/etc" /src'),
        (COMMAND, "docker exec c cat /etc/x > out.txt 2>&1"),
        (COMMAND, "cd src && docker compose -f src/x.yml exec web ls /etc"),
        (COMMAND, "docker-compose exec -T web ls /etc"),
        (COMMAND, "docker run --rm --entrypoint /usr/lib/x --tmpfs /etc alpine"),
        (COMMAND, "docker run --entrypoint sh alpine -c 'ls /etc'"),
        (COMMAND, "kubectl --context k exec pod -- cat /etc/hosts"),
        (COMMAND, "kubectl exec -it pod -n ns -- ls /etc"),
        (COMMAND, "kubectl -n ns exec deploy/x -c web -- cat /etc/hosts"),
        (COMMAND, "docker cp c:/etc/x ./x"),
        (COMMAND, "docker cp -a a.txt c:/etc/x"),
        (COMMAND, "kubectl cp ns/pod:/etc/x x -c web"),
        (COMMAND, 'docker run -v "$(pwd)":/etc -v "./src:/usr/src:ro" alpine'),
        (COMMAND, "sed '/:/d' a.txt"),
        (COMMAND, "docker run --mount type=bind,src=./a,dst=/etc/a alpine"),
        (COMMAND, 'docker run --mount type=bind,source="$(pwd)",target=/etc alpine'),
        (COMMAND, "docker run --mount target=/etc/x,type=volume,source=data alpine"),
        (COMMAND, "export PATH=$PWD/bin:$PATH"),
        (COMMAND, "dd if=/dev/zero of=a.bin bs=1M"),
        (COMMAND, 'DATABASE_URL="file:./dev.db" npx prisma migrate dev'),
        (NEUTRAL, "file:./dev.db?mode=ro"),
        (PAYLOAD, "file:src/a.py"),
        (COMMAND, 'curl -s -o /dev/null -w "%{http_code}\\n" http://localhost/health'),
        (COMMAND, 'curl -w "%{http_code}\\n" -o /dev/null -s http://localhost/health'),
        (COMMAND, 'for f in *.png; do convert "$f" "out/${f%.png}.jpg"; done'),
        (NEUTRAL, "/no-such/x"),
        (NEUTRAL, "/$1"),
        (NEUTRAL, "\x00\x1f"),
        (NEUTRAL, "a \x00 (b)"),
        (NEUTRAL, "and/or"),
        (NEUTRAL, "Berlin / DE"),
        (NEUTRAL, "see /etc/hosts"),
        (NEUTRAL, "{not json /etc"),
        (NEUTRAL, "/org/freedesktop/DBus"),
        (NEUTRAL, "--- /dev/null\n+++ b/src/x\n@@\n+a"),
        (NEUTRAL, "*** Begin Patch\n*** Update File: src/a.py\n@@\n-see /etc\n+see ../x\n"),
        (NEUTRAL, "src/a.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE"),
        (PAYLOAD, "--- /etc/x\n+++ /etc/x\n"),
        (
            COMMAND,
            "apply_patch <<'E'\n*** Begin Patch\n*** Add File: src/b.py\n+a\n*** End Patch\nE",
        ),
        (WEAK, "server:\n  root: /etc/nginx\n  log: ../x"),
        (WEAK, "Written to /etc/motd at each start"),
        (PATH, "/dev/null"),
        (PATH, "app/[slug]/page.tsx"),
        (PATH, "(group)/page.tsx"),
        (PATH, "+page.svelte"),
        (COMMAND, "cat a.txt > out.txt 2>/dev/null"),
        (COMMAND, "sed -n '/no-such.*/p' a.txt"),
        (COMMAND, "echo $(date)/x"),
        (NEUTRAL, "see /etc and ../x, or ~/y"),
        (NEUTRAL, "// import '../x'\n/etc"),
        (NEUTRAL, "x/" * 3000),
        (NEUTRAL, "C:\\x"),
        (NEUTRAL, "~approx"),
        (NEUTRAL, "// a comment\nand more"),
        (WEAK, "/9j/4AAQSkZJRgABAQ=="),
        (COMMAND, "git status -s src && ls"),
        (COMMAND, "curl https://x/etc"),
        (COMMAND, "ls > /dev/null 2>&1"),
        (COMMAND, "find . -name '*.py' -exec grep -n \"a/b\" {} \\;"),
        (COMMAND, "git commit -m 'fix: a/b and ../c'"),
        (COMMAND, "git add 'a b' && git commit -am \"fix ../c\" -m 'see ~/x, then' && ls"),
        (COMMAND, "gh pr create --title 'a/b' --body \"see ../x and ~/y\""),
        (WEAK, "<img src='../x.png'/>"),
        (NEUTRAL, "```js\nimport '../x'\n```"),
        (WEAK, "[id]/page.tsx"),
        (WEAK, "new Map()/x"),
        (NEUTRAL, "/*"),
        (NEUTRAL, "/*/x"),
        (NEUTRAL, "- see /etc"),
        (COMMAND, "cat src/* d*"),
        (VIRTUAL, "evil/x"),
        (VIRTUAL, "/etc"),
        (VIRTUAL, "/a/.."),
    ],
)
def test_values_that_mean_no_path_outside_are_admitted(
    world: CallContext, kind: Kind, value: str
) -> None:
    assert objection(world, kind, value) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (PATH, "/etc"),
        (PATH, "../x"),
        (PATH, "res://evil/x.tscn"),
        (NEUTRAL, "res://src/../evil/x"),
        (PATH, "res:///etc/x"),
        (NEUTRAL, "tarfs://evil/x"),
        (WEAK, "zipfile://evil/x!a"),
        (NEUTRAL, "zipfs://evil/x.zip"),
        (NEUTRAL, "libarchive://evil/x.7z"),
        (WEAK, "archive://evil/x"),
        (WEAK, r'"a.txt; a.txt\t/etc/passwd"'),
        (NEUTRAL, "https://h/a::/etc/passwd"),
        (WEAK, "https://h/a::/etc/passwd"),
        (GLOB, "/"),
        (GLOB, "'/'"),
        (GLOB, "\\"),
        (COMMAND, "cat " + ":".join(f"k{n}=v{n}" for n in range(60)) + ",-abc/etc/x"),
        (PATH, "a,/etc"),
        (PATH, "file:///etc"),
        (GLOB, "/etc/*"),
        (GLOB, "/*"),
        (GLOB, "a.txt,/**"),
        (GLOB, "{/,x}**"),
        (GLOB, "{a.txt,file:/}"),
        (GLOB, "--glob=/**"),
        (GLOB, "/e*/passwd"),
        (GLOB, r"/\e*/passwd"),
        (GLOB, r"\**"),
        (GLOB, "{a,/e*}/*"),
        (GLOB, "(/e*)"),
        (GLOB, "../*"),
        (PATH, "delta:///etc/x"),
        (WEAK, "s3:///etc"),
        (NEUTRAL, "delta:////etc/x"),
        (NEUTRAL, "delta:///%65tc"),
        (COMMAND, "load delta:///etc/x"),
        (NEUTRAL, "sqlite:///etc/x.db"),
        (PATH, "sqlite+aiosqlite:///etc/x.db"),
        (NEUTRAL, "sqlite://../x.db"),
        (NEUTRAL, "sqlite://localhost/etc/x.db"),
        (PATH, "local://etc/x"),
        (WEAK, "netdoc://etc/x"),
        (NEUTRAL, "unix://etc/x.sock"),
        (NEUTRAL, "a.txt,sqlite+aiosqlite://etc/x.db"),
        (PATH, "ipc://%65tc/x"),
        (COMMAND, "curl --unix-socket unix://etc/x"),
        (GLOB, r"x,\a/../../private/*"),
        (NEUTRAL, "file:../../x.db"),
        (PAYLOAD, "file:etc/passwd"),
        (PAYLOAD, "FILE:evil/x"),
        (WEAK, "file:%2e%2e/%2e%2e/private"),
        (WEAK, "fileb://../../private/x"),
        (NEUTRAL, "fileb://evil/x"),
        (COMMAND, "aws lambda invoke --payload fileb://../../private/x out.json"),
        (WEAK, "ldapi://%2Fetc%2Fx"),
        (PATH, "redis+socket://evil/x.sock"),
        (NEUTRAL, "nbd+unix:///x?socket=/etc/x.sock"),
        (NEUTRAL, "vscode://file/etc/passwd"),
        (NEUTRAL, "vscode-file://vscode-app/etc/passwd"),
        (WEAK, "oci-layout://../../private"),
        (COMMAND, "dd if=/dev/sda of=a.bin"),
        (NEUTRAL, "vrt://../../x.tif"),
        (COMMAND, "docker run -v /:/x alpine"),
        (COMMAND, "sudo docker run -v/:/x alpine"),
        (COMMAND, 'podman run --volume="/..":/x:ro alpine'),
        (COMMAND, "docker run --mount type=bind,source=/,target=/x alpine"),
        (COMMAND, "docker run -v /etc:/x alpine"),
        (COMMAND, "/:/host:ro"),
        (COMMAND, "cp docker -v x:/etc/y"),
        (COMMAND, "cp ';docker ' -v x:/etc/y ' '"),
        (COMMAND, 'docker run -v "x:/y$(cat</etc/passwd)" alpine'),
        (COMMAND, "docker run -v x:/y;cat -v x:/etc/y"),
        (COMMAND, 'cat "see evil now"'),
        (COMMAND, "cat 'with four plain words evil is read'"),
        (COMMAND, 'cat {"path": "see evil now"}'),
        (COMMAND, "docker exec c cat x > /etc/y"),
        (COMMAND, "docker exec c cat x >/etc/y"),
        (COMMAND, "docker exec c cat x > $(cat /etc/passwd)"),
        (COMMAND, "cat cd src && docker exec c cat x; cat /etc/passwd"),
        (COMMAND, "cd /etc && docker exec c ls"),
        (COMMAND, "cd src | docker exec c ls ; cat /etc/passwd"),
        (COMMAND, "docker-compose -f /etc/x exec c ls"),
        (COMMAND, "docker cp --entrypoint /etc/x c:/y"),
        (COMMAND, "docker exec c cat x; cat /etc/passwd"),
        (COMMAND, "docker exec c cat x\ncat /etc/passwd"),
        (COMMAND, "docker exec c cat /etc/x < evil/x"),
        (COMMAND, 'docker exec c echo "$(cat /etc/passwd)"'),
        (COMMAND, "docker exec c echo $(cat /etc/passwd)"),
        (COMMAND, "docker exec c echo 'a' `cat /etc/passwd`"),
        (COMMAND, "docker exec c echo \\' ; cat /etc/passwd # '"),
        (COMMAND, "docker exec c x # '\ncat /etc/passwd # '"),
        (COMMAND, "docker\nexec cat /etc/passwd"),
        (COMMAND, "docker exec\ncat x /etc/passwd"),
        (COMMAND, "docker\nexec grep -h a -w /etc/passwd"),
        (COMMAND, "docker run -e $'\\' img x ' ; cat /etc/passwd # '"),
        (COMMAND, 'docker run -e "$(echo " img x \'$(cat /etc/passwd)\' ")"'),
        (COMMAND, 'docker run -e "${x:-" img \'$(cat /etc/passwd)\' "}"'),
        (COMMAND, "docker run -e $(cat /etc/passwd) img ls"),
        (COMMAND, "docker run img cat # /etc/passwd\ncat /etc/passwd"),
        (COMMAND, "docker run img cat ~/x"),
        (COMMAND, "kubectl\nexec cat -- /etc/passwd"),
        (COMMAND, "docker\ncp ./x /etc/x"),
        (COMMAND, "docker exec --env-file /etc/x c ls"),
        (COMMAND, "docker run --env-file /etc/x alpine ls"),
        (COMMAND, "docker run -v /etc:/x alpine ls /etc"),
        (COMMAND, "docker run -v ../../private:/x alpine cat /etc/x"),
        (COMMAND, "docker cp c:/etc/x /etc/y"),
        (COMMAND, "docker cp /etc/x c:/etc/y"),
        (COMMAND, "docker cp ./c:/../../../../etc/x c:/y"),
        (COMMAND, "kubectl exec pod cat /etc/x"),
        (COMMAND, "kubectl exec pod -- cat x >/etc/y"),
        (COMMAND, "kubectl --kubeconfig /etc/x exec pod -- ls"),
        (COMMAND, "ls docker exec c cat /etc/x"),
        (COMMAND, "podman unshare cat /etc/x"),
        (COMMAND, "ssh h cat /etc/x"),
        (COMMAND, "scp h:/etc/x ."),
        (COMMAND, "tar -C/ -c ."),
        (COMMAND, "cat ${x:-./ev${x}il}/x"),
        (COMMAND, "cat ${x:-ev${y:-i${z}}l}/x"),
        (GLOB, "evil/*"),
        (WEAK, "/no-such/x"),
        (WEAK, "//etc"),
        (WEAK, "evil"),
        (NEUTRAL, "/etc/x"),
        (NEUTRAL, "/../etc"),
        (NEUTRAL, "../../x"),
        (NEUTRAL, "..\\..\\x"),
        (COMMAND, "cat k=-oevil"),
        (NEUTRAL, "a.txt,-oevil"),
        (NEUTRAL, "evil/x"),
        (NEUTRAL, "~/.ssh"),
        (NEUTRAL, "--out=/etc"),
        (NEUTRAL, "--in file:///etc --verbose more words"),
        (NEUTRAL, "/et?/passwd"),
        (NEUTRAL, "{ev,x}il"),
        (VIRTUAL, "../../x"),
        (NEUTRAL, " /"),
        (NEUTRAL, "'/'"),
        (NEUTRAL, "%2e%2e%2f%2e%2e%2f" + "a" * 2000),
        (PAYLOAD, "file:///etc"),
        (NEUTRAL, "--- a/../../../x\n+++ b/../../../x\n@@ -1 +1 @@\n-a\n+b\n"),
        (NEUTRAL, "*** Begin Patch\n*** Update File: /etc/passwd\n@@\n-a\n+b\n*** End Patch"),
        (NEUTRAL, "*** Begin Patch\n*** Add File: /no-such/x\n+b\n*** End Patch"),
        (NEUTRAL, "one and two and three words\n*** Add File: evil/x\n+b" + " word" * 300),
        (WEAK, "diff --git a/x b/x\nrename from x\nrename to ../../x\n"),
        (NEUTRAL, "../../x\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE"),
        (COMMAND, "patch -p0 <<'E'\n--- /no-such\n+++ /no-such\n@@ -0,0 +1 @@\n+a\nE"),
        (COMMAND, "cat /etc/passwd"),
        (COMMAND, "cat evil/x"),
        (COMMAND, "cat e*"),
        (COMMAND, "ls /"),
        (WEAK, "new.txt\n/etc"),
        (WEAK, "http://../../private/secret.txt"),
        (WEAK, "notes://path/../../private/secret.txt"),
        (NEUTRAL, "notes://path/%2e%2e/private/secret.txt"),
        (WEAK, "https://x/?/../../../../private"),
        (WEAK, "https://%2e%2e/%2E%2e/private"),
        (GLOB, "http://../../private/*"),
        (NEUTRAL, "http://../../private"),
        (NEUTRAL, "data:,/../../../private"),
        (PATH, "https://h/%2e%2e/%2e%2e/%2e%2e/private/secret.txt"),
        (PATH, "....//private/secret.txt"),
        (PATH, "a/" * 100 + "....//" * 101 + "private/secret.txt"),
        (PATH, '"a.txt" ".*./private/secret.txt"'),
        (WEAK, "src/..././..././private"),
        (PATH, "http://%2e%2e/%2e%2e/private/secret.txt"),
        (NEUTRAL, "http://../?x=/../../private/secret.txt"),
        (NEUTRAL, "http://%2e./?x=/../../private/secret.txt"),
        (NEUTRAL, "http://..,/etc/x"),
        (GLOB, "http://..,/etc/x"),
        (NEUTRAL, "http://.,evil/x"),
        (PATH, "/proc/self/root"),
        (PATH, "/proc/x y"),
        (PATH, "/etc/passwd/x"),
        (NEUTRAL, "../private/secret.txt/x"),
    ],
)
def test_values_that_mean_a_path_outside_are_refused(
    world: CallContext, kind: Kind, value: str
) -> None:
    assert objection(world, kind, value) == OUTSIDE


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (PATH, 7, "a number is not a path"),
        (PATH, Decimal(7), "a number is not a path"),
        (PATH, "a\x1bb", "it contains a control character"),
        (PATH, "\ud800", "it contains an unpaired surrogate"),
        (PATH, "$(id)", "it contains a shell substitution"),
        (PATH, "${A:-/etc}", "it contains a shell substitution"),
        (PATH, "~root/x", "it starts with '~' and a name, which the hub does not resolve"),
        (PATH, "~+", "it starts with '~' and a name, which the hub does not resolve"),
        (NEUTRAL, "~root/x", "it starts with '~' and a name, which the hub does not resolve"),
        (WEAK, "x\x00y", "it contains a NUL character"),
        (GLOB, "a/*/../../x", "it has '..' after a wildcard"),
        (PATH, "pl", "/proc means something else in the process that opens it"),
        (PATH, "a.txt/x", "it passes through something that is not a directory"),
        (NEUTRAL, "a\x00/b", "it contains a NUL character"),
    ],
)
def test_every_doubt_is_a_refusal(world: CallContext, kind: Kind, value: Json, reason: str) -> None:
    assert objection(world, kind, value) == reason


@pytest.mark.parametrize("kind", [WEAK, NEUTRAL, GLOB])
@pytest.mark.parametrize(
    "value",
    [
        "/etc/passwd" + " " * 4200,
        "/etc/" + "./" * 2100 + "passwd",
        "/etc" + "/" * 4200 + "passwd",
        "./" * 2100 + "../../etc/passwd",
        "..\\" + ".\\" * 2100 + "..\\x",
        "src/../" * 700 + "../../etc/passwd",
        "/none/../" * 700 + "etc/passwd",
        "/etc/" + "x" * 4200 + "/../passwd",
        "evil" + "/" * 4200 + "secret.txt",
        "evil/" + "./" * 4200 + "secret.txt",
        " " * 4200 + "file:///etc/passwd",
        "\u200b" * 4200 + "file:///etc/passwd",
        "%2e%2f" * 2100 + "%2e%2e/%2e%2e/x",
        "$NO" * 2100 + "/etc/passwd",
        "~/" + "./" * 2100 + ".ssh",
        "https://example.com/" + "../" * 2000,
    ],
    ids=lambda value: value[:8] + value[-12:],
)
def test_a_path_that_is_padded_is_a_path(world: CallContext, kind: Kind, value: str) -> None:
    assert objection(world, kind, value) == OUTSIDE


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (WEAK, "/no-such/" * 1000, "it is longer than any path can be"),
        (NEUTRAL, "/etc/" + "none/" * 1000, "it is longer than any path can be"),
        (NEUTRAL, "../" * 1400, "it is longer than any path can be"),
        (NEUTRAL, "src/" * 1400, "it is longer than any path can be"),
        (NEUTRAL, "~/" + "x/" * 2100, "it is longer than any path can be"),
        (GLOB, "src/" * 1400 + "*", "it is longer than any path can be"),
        (GLOB, "*/" * 2100 + "../x", "it has '..' after a wildcard"),
        (GLOB, "a.txt," * 1000 + "/etc/*", OUTSIDE),
        (NEUTRAL, "a.txt," * 1000 + "/etc/passwd", OUTSIDE),
        (NEUTRAL, "x" * 4200 + "=/etc/passwd", OUTSIDE),
        (NEUTRAL, "/etc/passwd\x00" + "x" * 4200, "it contains a NUL character"),
        (NEUTRAL, "/none/%" + "25" * 2100 + "41", "it can be read in too many ways"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_path_longer_than_any_path_can_be_is_refused(
    world: CallContext, kind: Kind, value: str, reason: str
) -> None:
    assert objection(world, kind, value) == reason


CODE = "import x from '../../../lib'\nfor (const a of b) { open('/etc/hosts') }\n" * 80


@pytest.mark.parametrize("kind", [WEAK, NEUTRAL, GLOB])
@pytest.mark.parametrize(
    "value",
    [
        CODE,
        "/* a comment */\n" + CODE,
        "and then we looked into /etc and ../x, or ~/y, " * 100,
        "/9j/4AAQ" + "SkZJ/RgA" * 600 + "==",
        "iVBORw0KGgo" + "AAA/NSUh" * 600,
        "x/" * 3000,
        "https://example.com/" + "a/../" * 1000,
        "a,b;c|d=1.5...2" * 400,
        "-" * 5000,
        "a.txt" + " " * 5000,
        "src/" + "./" * 2100 + "a.py",
        "[" * 5000,
    ],
    ids=lambda value: value[:16],
)
def test_long_texts_are_admitted(world: CallContext, kind: Kind, value: str) -> None:
    assert objection(world, kind, value) is None


@pytest.mark.parametrize("name", ["a:b:c:d:e:f:g:h:i:j", "n" * 254, "a=b"])
@pytest.mark.parametrize("value", ["NAME:k", "NAME=k", "k=NAME", "k: NAME ,x", "-oNAME"])
def test_a_link_is_found_whatever_signs_its_name_has(tmp_path: Path, name: str, value: str) -> None:
    top = plant(tmp_path, *PROJECT, f"project/{name} => ../private")
    world = context(share(top / "project"), top / "project")
    assert objection(world, NEUTRAL, value.replace("NAME", name)) == OUTSIDE


def test_what_is_not_safe_for_sharing_is_refused_below_a_root_too(tmp_path: Path) -> None:
    top = plant(tmp_path, "home/.ssh/key", "home/notes")
    world = context(share(top / "home"), top / "home")
    policy = Policy(unsafe=UnsafePaths(f"{top}/home", POSIX))
    assert objection(world, PATH, ".ssh/key", policy) == "it is not safe for sharing"
    assert objection(world, PATH, "notes", policy) is None


def test_a_long_value_on_windows() -> None:
    world = on_windows("C:\\R")
    for outside in ("C:\\Windows", "\\\\server\\share", "..\\.."):
        assert objection(world, NEUTRAL, outside + "\\." * 2100 + "\\x") is not None
        assert objection(world, NEUTRAL, outside + "\\x" * 2100) is not None
    assert objection(world, NEUTRAL, "C:\\R" + "\\." * 2100 + "\\x") is None


def test_a_value_that_is_not_a_string_is_shown_by_its_type(world: CallContext) -> None:
    judge = Judge(world, Policy(), needs_write=True)
    (evaluated,) = judge.evaluate(PathCandidate("/k", "k", PATH, [1], ""))
    assert evaluated.reading == "list"


def test_judging_stops_at_the_first_objection(world: CallContext) -> None:
    judge = Judge(world, Policy(refuse_options=True), needs_write=True)
    for kind, value in ((NEUTRAL, "-D"), (GLOB, "*/../x")):
        (evaluated,) = judge.evaluate(PathCandidate("/ref", "ref", kind, value, ""))
        assert evaluated.objection is not None


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("volumes", "./src:/data", False),
        ("mounts", "{cwd}/src:/etc/x:ro", False),
        ("volumes", "named:/var/lib/x", False),
        ("volumes", "{cwd}:/app", False),
        ("volumes", "{cwd}:/app/../../private", True),
        ("mounts", "type=bind,source={cwd},target=/app", False),
        ("mounts", "type=bind,source=/etc,target=/app", True),
        ("mounts", "type=bind,source=evil,target=/app", True),
        ("volumes", "/etc:/data", True),
        ("volumes", "../private:/data:rw", True),
        ("volumes", "evil:/data", True),
        ("volumes", "~/.ssh:/data", True),
        ("volumes", "src:/data:/etc", True),
        ("volumes", "src:/data,/etc:/x", True),
        ("volumes", "src:/data,/etc", True),
        ("volumes", "src:/../../private", True),
        ("volumes", "x=/etc:/data", True),
        ("volume", "file:///etc", True),
        ("mount", "local:/etc", True),
        ("volume", "file://{cwd}", False),
        ("output", "src:/data", True),
        ("volume_log", "src:/data", True),
    ],
)
def test_of_a_mount_the_part_on_this_machine_is_judged(
    world: CallContext, key: str, value: str, *, refused: bool
) -> None:
    judge = Judge(world, Policy(), needs_write=True)
    candidate = PathCandidate("/k", key, WEAK, value.format(cwd=world.cwd), "")
    assert (judge.objection(candidate) is not None) is refused


def test_an_option_is_no_revision(world: CallContext) -> None:
    judge = Judge(world, Policy(refuse_options=True), needs_write=True)
    assert judge.objection(PathCandidate("/ref", "ref", NEUTRAL, "-D", "")) == (
        "a revision must not begin with '-': the program would read it as an option"
    )
    assert judge.objection(PathCandidate("/sort", "sort", NEUTRAL, "-D", "")) is None


@pytest.mark.parametrize(
    ("kind", "value", "refused"),
    [
        (NEUTRAL, "D:\\x", True),
        (NEUTRAL, "\\\\server\\share", True),
        (NEUTRAL, "/Windows/x", True),
        (NEUTRAL, "/", True),
        (WEAK, "/api/users", True),
        (GLOB, "/Windows/*", True),
        (WEAK, "src/a", False),
        (GLOB, "C:\\R\\**\\*.ts", False),
        (GLOB, "..\\*", True),
        (GLOB, "{a,b}\\**", False),
        (NEUTRAL, "redis:///0", False),
        (NEUTRAL, "delta:///C:/Windows", True),
        (GLOB, "src\\*\\..\\x", True),
        (PATH, "C:\\R\\a b", False),
        (COMMAND, "type C:\\Windows\\win.ini", True),
        (COMMAND, "dir src", False),
    ],
)
def test_windows_values(kind: Kind, value: str, *, refused: bool) -> None:
    assert (objection(on_windows("C:\\R"), kind, value) is not None) is refused


def test_deny_patterns_apply_to_plain_paths(world: CallContext) -> None:
    policy = Policy(deny=DenyPatterns(("a.txt",)))
    assert (
        objection(world, PATH, f"{world.cwd}/a.txt", policy)
        == "it matches one of the operator's deny patterns"
    )


def test_only_an_absolute_path_that_reads_in_one_way_has_a_canonical_form(
    world: CallContext,
) -> None:
    judge = Judge(world, Policy(), needs_write=True)

    def canonical(value: Json, kind: Kind = PATH) -> str | None:
        return judge.canonical(PathCandidate("/k", "k", kind, value, ""))

    assert canonical(f"{world.cwd}/./a.txt") == f"{world.cwd}/a.txt"
    assert canonical(7) is None
    assert canonical("a.txt") is None
    assert canonical(f"{world.cwd}/a%20b") is None
    assert canonical(f"{world.cwd}/a.txt", WEAK) is None


def test_judging_stops_when_the_budget_is_used_up(world: CallContext) -> None:
    candidate = PathCandidate("/k", "k", PATH, ",".join("abcdefghijkl"), "")
    for readings, effort, reason in (
        (10, 10_000, "there is too much to judge"),
        (1000, 40, TooMuchError().reason),
        (1000, 10_000, None),
    ):
        budget = Budget(search=0, readings=readings, effort=effort)
        judge = Judge(world, Policy(), needs_write=True, budget=budget)
        assert judge.objection(candidate) == reason
        assert judge.is_spent is (reason is not None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (COMMAND, "cat $'\\x2fetc\\x2fpasswd'"),
        (COMMAND, "cat $'\\057etc/passwd'"),
        (COMMAND, "cat $'\\U0000002fetc/passwd'"),
        (COMMAND, "cat $'\\u2e\\u2e/private/secret.txt'"),
        (COMMAND, "cat /[^x]tc/passwd"),
        (COMMAND, "cat /[[:alpha:]]tc/passwd"),
        (COMMAND, "cat /+(e)tc/passwd"),
        (COMMAND, "cat .[[:punct:]]/private/secret.txt"),
        (COMMAND, "cat a.txt,-oevil"),
        (COMMAND, "cat git commit -m '../private/secret x.txt'"),
        (COMMAND, "cat ';git commit -m ' ../private/secret.txt ' x'"),
        (COMMAND, "cat \\'; git commit -m ' ../private/secret.txt ' x'"),
        (COMMAND, "git diff --no-index -m '../private/secret x.txt' y"),
        (COMMAND, "git commit -m 'a b'; cat ../private/secret.txt"),
        (COMMAND, "git commit -F '../private/secret.txt x' -m 'a b'"),
        (COMMAND, 'git commit -m "$(cat ../private/secret.txt)"'),
        (COMMAND, "sh -c cat\\ evil/secret.txt"),
        (NEUTRAL, "/vsizip//etc/x.zip/y"),
        (NEUTRAL, "/vsitar/../private/secret.txt/y"),
        (NEUTRAL, "/vsizip/evil/x.zip/y"),
        (NEUTRAL, "/vsizip/{/etc/x.zip}/y"),
        (COMMAND, "ogrinfo /vsigzip//etc/x.gz"),
        (WEAK, "osfs:///etc"),
        (WEAK, "http://unix:/etc/x.sock:/containers"),
        (WEAK, "a.txt\u2028/etc/passwd"),
        (WEAK, "a.txt\x85../private/secret.txt"),
    ],
)
def test_other_ways_to_write_a_path_are_read(world: CallContext, kind: Kind, value: str) -> None:
    assert objection(world, kind, value) is not None


@pytest.mark.parametrize("kind", [PATH, WEAK, NEUTRAL, COMMAND])
@pytest.mark.parametrize("value", ["@@l/x", "--data=@@l/x", "-d@@l/x", "k=@@l/x", "!@l/x"])
def test_one_sign_is_taken_off_a_name_that_begins_with_one(
    tmp_path: Path, kind: Kind, value: str
) -> None:
    top = plant(tmp_path, "project/", "private/x", "project/@l => ../private")
    assert objection(context(share(top / "project"), top / "project"), kind, value) == OUTSIDE


@pytest.mark.parametrize("name", ["a:b", "a=b", "x+y@z", "a&b#c"])
@pytest.mark.parametrize("value", ["k={}", "x,k={}", "{}:ro", "k={}:ro", "k=@{}", "u:k={}@h"])
def test_a_link_with_a_sign_in_its_name_is_followed(tmp_path: Path, name: str, value: str) -> None:
    top = plant(tmp_path, "project/a.txt", "private/x", f"project/{name} => ../private/x")
    here = context(share(top / "project"), top / "project")
    for kind in (COMMAND, NEUTRAL):
        assert objection(here, kind, value.format(name)) == OUTSIDE


@pytest.mark.parametrize(("name", "sign"), [("a,b", ";"), ("a,b", "|"), ("a;b", ","), ("a|b", ";")])
def test_a_link_with_another_sign_than_its_list_is_followed(
    tmp_path: Path, name: str, sign: str
) -> None:
    top = plant(tmp_path, "project/a.txt", "private/x", f"project/{name} => ../private/x")
    here = context(share(top / "project"), top / "project")
    for value in (f"a.txt{sign}{name}", f"src/x{sign}{name}", f"{name}{sign}a.txt"):
        assert objection(here, NEUTRAL, value) == OUTSIDE


@pytest.mark.parametrize("name", ["a:b", "a=b", "a+b", "a!b"])
@pytest.mark.parametrize("value", ["k=src/{}", "src/{}:ro", "k=src/{}:ro", "src/{}:/in/it:ro"])
def test_a_path_with_a_sign_in_it_is_followed(tmp_path: Path, name: str, value: str) -> None:
    top = plant(tmp_path, "project/src/a.txt", "private/x", f"project/src/{name} => ../../private")
    here = context(share(top / "project"), top / "project")
    for kind in (COMMAND, NEUTRAL, WEAK, PATH):
        assert objection(here, kind, value.format(name)) == OUTSIDE


@pytest.mark.parametrize(
    "words", ['"a.txt" ""a.txt" "x y""', "see 'a.txt', then 'x y", "one, two, three and “x y”"]
)
def test_a_link_that_a_command_quotes_in_prose_is_followed(tmp_path: Path, words: str) -> None:
    top = plant(tmp_path, "project/a.txt", "private/x", "project/x y => ../private/x")
    here = context(share(top / "project"), top / "project")
    assert objection(here, COMMAND, words) == OUTSIDE
    assert objection(here, COMMAND, words.replace("x y", "y x")) is None


def test_a_word_of_which_a_shell_makes_too_many_paths_is_refused(tmp_path: Path) -> None:
    top = plant(tmp_path, "project/a.txt", "private/x")
    here = context(share(top / "project"), top / "project")
    word = "{.,a}{.,b}/private/{x,y}" + "{,c}" * 8
    assert objection(here, COMMAND, f"cat {word}") == "it can be read in too many ways"


def test_a_chain_of_urls_is_judged_whatever_the_name_in_its_archive(tmp_path: Path) -> None:
    top = plant(tmp_path, "project/a.zip", "private/x.zip")
    here = context(share(top / "project"), top / "project")
    for kind in (NEUTRAL, WEAK, PATH):
        assert objection(here, kind, "zip://one of our old names::../private/x.zip") == OUTSIDE
        assert objection(here, kind, "zip://one of our old names::a.zip") is None


@pytest.mark.parametrize(
    "name", ["my root", "a, b", "x: y", "(old)", "[g]", "C#", "p=q", "a;b", "é"]
)
def test_a_root_with_special_characters_in_its_name_can_be_used(tmp_path: Path, name: str) -> None:
    top = plant(tmp_path, f"{name}/src/a.py", "private/secret.txt", f"{name}/out => ../private")
    here = context(share(top / name), top / name)
    escaped = re.sub(r"([^\w./-])", r"\\\1", str(top / name))
    for spelled in (
        f"'{top / name}/src/a.py'",
        f'"{top / name}/src/a b.py"',
        f"{escaped}/src/a.py",
        f"{(top / name).as_uri()}/src/a.py",
    ):
        assert objection(here, COMMAND, f"cat -n {spelled} > /dev/null") is None
    for kind in (PATH, GLOB, NEUTRAL):
        assert objection(here, kind, f"{top / name}/src/a.py") is None
    for spelled in (
        f"'{top / name}/../private/x'",
        f"'{top / name}/out/secret.txt'",
        f"{top}/'{name} x'",
        f"{(top / name).as_uri()}/out/secret.txt",
        f"{(top / name).as_uri()}x/secret.txt",
    ):
        assert objection(here, COMMAND, f"cat {spelled}") == OUTSIDE
    assert objection(here, GLOB, f"{top / name}/out/*") == OUTSIDE
    assert objection(here, GLOB, f"{top / name}/../*") == OUTSIDE


@pytest.mark.parametrize("name", ["\uff4cink", "l\u200bink", "link\ufe0f"])
def test_a_bare_name_in_other_characters_is_read_in_plain_ones(tmp_path: Path, name: str) -> None:
    top = plant(tmp_path, "project/a.txt", "private/x", "project/link => ../private/x")
    here = context(share(top / "project"), top / "project")
    for kind in (COMMAND, NEUTRAL, WEAK, PATH):
        assert objection(here, kind, name) == OUTSIDE
        assert objection(here, kind, f"x{name}") is None


@pytest.mark.parametrize("text", ["a.txt\\n/etc/x", "a.txt\\n//etc/x", "..\\u002f../x"])
def test_an_argument_may_be_json(world: CallContext, text: str) -> None:
    candidate = PathCandidate("/argv/1", "argv", COMMAND, f'"{text}"', "", is_element=True)
    assert Judge(world, Policy(), needs_write=True).objection(candidate) == OUTSIDE


@pytest.mark.parametrize("name", ["~/.ssh/id_rsa", "$HOME/x", "%2e%2e/private/x", "src/..\\..\\x"])
def test_the_file_that_a_patch_names_is_read_in_each_way(world: CallContext, name: str) -> None:
    judge = Judge(world, Policy(), needs_write=True)
    for patch in (
        f"*** Begin Patch\n*** Update File: {name}\n@@\n-a\n+b\n*** End Patch",
        f"--- {name}\n+++ {name}\n@@ -1 +1 @@\n-a\n+b\n",
    ):
        candidate = PathCandidate("/patch", "patch", NEUTRAL, patch, "")
        assert judge.objection(candidate) == OUTSIDE
        inside = PathCandidate("/patch", "patch", NEUTRAL, patch.replace(name, "src/a.py"), "")
        assert judge.objection(inside) is None


def test_arguments_of_another_program_are_no_command_line(world: CallContext) -> None:
    judge = Judge(world, Policy(), needs_write=True)
    for line in ("git commit -m '/etc/passwd'", "docker run -w /etc/x y", "docker exec c /etc/x"):
        for key, is_element, is_refused in (
            ("args", False, True),
            ("args", True, False),
            ("command", False, False),
        ):
            candidate = PathCandidate("/k/1", key, COMMAND, line, "", is_element=is_element)
            assert (judge.objection(candidate) is not None) is is_refused, (line, key)


@pytest.mark.parametrize(
    ("key", "is_element", "is_refused"),
    [("args", False, True), ("args", True, True), ("command", False, False)],
)
def test_a_line_of_arguments_starts_with_no_remark(
    world: CallContext, key: str, is_element: bool, is_refused: bool
) -> None:
    line = "# /etc/passwd\na.txt"
    candidate = PathCandidate("/k/1", key, COMMAND, line, "", is_element=is_element)
    found = Judge(world, Policy(), needs_write=True).objection(candidate)
    assert (found is not None) is is_refused


@pytest.mark.parametrize("sign", [",", "|", ";", " ", ":", "\n", "=", "@", "("])
def test_the_start_of_an_oddly_spelled_path_is_judged_too(tmp_path: Path, sign: str) -> None:
    top = plant(
        tmp_path, "project/", "private/s", "project/leak => ../private/s", "same => project"
    )
    here = context(share(top / "project"), top / "project")
    for spelled in (f"/.{top}/project", f"/{top}/project", f"{top}/./project", f"{top}/same"):
        judge = Judge(here, Policy(), needs_write=True)
        for name, is_refused in (("leak", True), ("none", False)):
            value = f"{spelled}/{name}{sign}a.txt"
            if sign == "\n" and not is_refused:
                continue  # a control character is refused in any case
            candidate = PathCandidate("/path", "path", PATH, value, "")
            assert (judge.objection(candidate) is not None) is is_refused, value


@pytest.mark.parametrize(
    "path", ["leak", "./leak", "src/../leak", "../private/s", "{top}/private/s"]
)
def test_a_path_in_a_line_that_is_typed_into_a_shell_is_judged(tmp_path: Path, path: str) -> None:
    top = plant(tmp_path, "project/src/", "private/s", "project/leak => ../private/s")
    judge = Judge(context(share(top / "project"), top / "project"), Policy(), needs_write=True)
    path = path.replace("{top}", str(top))
    for key, typed in (
        ("input", f"cat {path}"),
        ("keys", f"less {path}\n"),
        ("stdin", f"x {path}"),
    ):
        candidate = PathCandidate(f"/{key}", key, NEUTRAL, typed, "")
        assert judge.objection(candidate) == OUTSIDE, typed
    for typed in ("docker run -v /:/x a", "docker run --rm -it -v $X/:/x a"):
        candidate = PathCandidate("/stdin", "stdin", NEUTRAL, typed, "")
        assert judge.objection(candidate) == OUTSIDE, typed
    for typed in ("See /etc/x for ../y, please", '// import x from "../a"\n/* of what is b */'):
        assert judge.objection(PathCandidate("/input", "input", NEUTRAL, typed, "")) is None, typed
    for typed in ("cat src/a", "df['a'] / df['b'] // 2", "is it 5 m/s or/and 3?", "cat /none/x"):
        assert judge.objection(PathCandidate("/input", "input", NEUTRAL, typed, "")) is None, typed


def test_a_text_that_is_longer_than_any_name_is_no_path(tmp_path: Path) -> None:
    top = plant(tmp_path, "project/src/", "private/s")
    judge = Judge(context(share(top / "project"), top / "project"), Policy(), needs_write=True)
    code = f"const p={{...q,'a':'{'b' * 300}'}}"
    for kind in (COMMAND, NEUTRAL, WEAK):
        for value, is_refused in (
            (code, False),
            (f'node -e "{code}; console.log({{...p}})"', False),
            (f"{code}/../../private/s", True),
        ):
            candidate = PathCandidate("/k", "k", kind, value, "")
            assert (judge.objection(candidate) is not None) is is_refused, (kind, value)
    assert judge.objection(PathCandidate("/k", "k", PATH, code, "")) is not None


def test_a_wildcard_of_a_command_finds_what_the_operator_denies(world: CallContext) -> None:
    policy = Policy(deny=DenyPatterns(("*.py",)))
    denied = "it matches one of the operator's deny patterns"
    for command in ("cat src/a.*", "cat s*/*", "cat s*/a.p?"):
        assert objection(world, COMMAND, command) is None
        assert objection(world, COMMAND, command, policy) == denied
    assert objection(world, COMMAND, "cat *.txt", policy) is None


@pytest.mark.parametrize("name", [b"caf\xe9", b"a b\xff", b"\xe9 (1)", b"\x80${x}"])
@pytest.mark.parametrize(
    ("kind", "value", "inside"),
    [
        (GLOB, "*.txt", True),
        (GLOB, "../*.txt", False),
        (COMMAND, "cat a.txt | wc -l", True),
        (COMMAND, "cat ../private/x", False),
        (NEUTRAL, "see a.txt and b", True),
        (PATH, "a.txt", True),
        (PATH, "../private/x", False),
    ],
)
def test_a_root_whose_name_is_no_text_is_judged_like_any_other(
    tmp_path: Path, name: bytes, kind: Kind, value: str, *, inside: bool
) -> None:
    plant(tmp_path, "private/x", "y.txt")
    root = tmp_path / os.fsdecode(name)
    root.mkdir()
    (root / "a.txt").touch()
    found = objection(context(share(root), root, env={"HOME": str(tmp_path)}), kind, value)
    assert found == (None if inside else OUTSIDE)
