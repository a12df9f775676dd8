"""Commands of every day pass; one beside them that opens a file outside is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.guard.arguments import PathCandidate
from hub.guard.containment import OUTSIDE
from hub.guard.judge import Judge
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Policy
from tests.kit.trees import plant
from tests.kit.worlds import context, share

LISTS = [
    "PYTHONPATH=$PWD:$PYTHONPATH pytest",
    "export PYTHONPATH=$PWD/src:$PWD && pytest",
    'export LD_LIBRARY_PATH="$PWD:$LD_LIBRARY_PATH"',
    'docker run -v "$PWD/tmp:/tmp" x',
    'cat "$PWD/lib/x" "${PWD}/etc/y"',
]
COMPUTED = [
    'cd "$(dirname "$0")/.." && npm test',
    'ls "$(git rev-parse --show-toplevel)/"',
    "cp a.txt backup-$(date +%F).txt && ls src/$(cat name)/x",
    "for f in $(git ls-files 'src/*.py'); do echo $f:$(wc -l < $f); done",
]
EMPTY = [
    "echo ''",
    'echo "" > a.txt',
    "sed -i '' -e 's/a/b/' a.txt",
    "ssh-keygen -t ed25519 -f key -N ''",
    "curl -X POST -d '' http://localhost:8080/api/x",
    '[ -z "" ] && echo empty',
    "grep -c '' src/a.py",
]
STARTED = [
    "cat > run.sh <<'EOF'\n#!/bin/bash\nnpm start\nEOF",
    "cat > run.sh <<'EOF'\n#!/usr/bin/env bash\nnpm start\nEOF",
    "grep -rlF '#!/bin/sh' src",
    "grep -rl '#!/usr/bin/env python' .",
    "echo x | tee /dev/stderr",
    "echo x > /dev/stderr",
]
_BODY = (
    '{"jsonrpc":"2.0","id":1,"method":"tools/call",'
    '"params":{"name":"x","arguments":{"path":"src"}}}'
)
_SCRIPT = "import json; print(json.dumps({'a': 'b/c', 'd': ['e/f'], 'g': {'h': 1 / 2, 'i': 'j'}}))"
RICH = [
    f"curl -X POST http://localhost:3000/mcp -d '{_BODY}'",
    'curl -s http://localhost/x -d \'{"name": "x", "path": "/a/b", "n": 1, "o": ["c/d"]}\'',
    'curl http://localhost/x -d "{\\"name\\": \\"x\\", \\"path\\": \\"/a/b\\", \\"n\\": 1}"',
    "kubectl patch deploy web --type=json "
    '-p=\'[{"op":"replace","path":"/spec/replicas","value":2}]\'',
    f'python3 -c "{_SCRIPT}"',
    "node -e \"console.log({a: 'b/c', d: ['e/f', 'g/h'], i: {j: 'k/l'}})\"",
    "cat > ci.yml <<'EOF'\nname: CI\non: [push]\njobs:\n  test:\n    runs-on: ubuntu-latest\n"
    "    steps:\n      - uses: actions/checkout@v4\n      - run: npm ci && npm test\nEOF",
    'jq \'.i[] | {a: .x, b: (.y // "n/a"), c: [.z | "\\(.k)=\\(.v)"]} | "\\(.a),\\(.b)"\' a.json',
]
WILD = [
    "find . -type f -not -path '*/.*'",
    r"find . -type f -not -path '*/\.*'",
    "find . -name '.*' -type f",
    'find . -name ".?*"',
    r"find . -name \*.py",
    r"find . -regextype posix-extended -regex '.*\.(js|ts)$'",
    r"find . -regex '\./src/.*'",
    "find . -regex '.*/[a-c].*'",
    "grep -v '.*/test/.*' a.txt",
    "rg '.*/x' src",
    "sed 's|.*/||' a.txt",
    "npx jest --testPathPattern='.*/x'",
    "tar -czf a.tgz --exclude='.*' src",
    "rsync -a --exclude '.*' src/ dist/",
    "ls -a | grep -E '^.*/.?' | sed 's|.*/||'",
    "find . -not -path '*/.*' -exec grep x {} +",
]
WILD_OUT = [
    "cat .*/private/x",
    "cat '.'*/private/x",
    "cat .[.]'/private/x'",
    "find '.*' .*/private",
    "bash -c 'cat .*/private/x'",
    "bash -c 'cat<.*/private/x'",
    "bash -c 'ls>.*/private/x'",
    "bash -c 'ls;.?/private/x'",
    "find ../private -name '.*'",
    "find . -path '*/../../private/*'",
    "echo */.*/.*/private/x",
    "sh -c '.?/private/x'",
    "eval '.?/private/x'",
    'nice sh -c ".[.]/private/x"',
    "echo '.?/private/x' | xargs sh -c 'cat $0'",
    "x='.?/private/x'; cat $x",
    "cat $(echo '.?/private/x')",
    "sh -c 'cat $0' '.?/private/x'",
    "find . -exec sh -c 'cat $0' '.?/private/x' ';'",
    "cat $(find . -maxdepth 0 -printf '.?/private/x')",
    "git -c alias.x='!.?/private/x' x",
    "tar -cf a.tar src --checkpoint=1 --checkpoint-action=exec='.?/private/x'",
    "grep x a.txt; sh -c '.?/private/x'",
    "sed 's|.*|.?/private/x|' a.txt | sh",
    "sed 's,.*,.?/private/x,' a.txt | xargs -I% /bin/bash -c %",
    "alias grep=eval\ngrep '.?/private/x'",
    "grep() { eval; }; grep '.?/private/x'",
    "sh -c '.?/private/x' grep",
    "grep '.?/private/x' a.txt; sh -c '.?/private/x'",
]
PROGRAMS = [
    ".venv/bin/python src/a.py",
    "./.venv/bin/python3 -m pytest -q",
    ".venv/bin/python -c 'print(1)'",
    "cd src && X=1 sudo .venv/bin/python a.py",
    "ls | .venv/bin/python -",
    ".venv/bin/python3.12 -V",
    "(cd src && .venv/bin/python a.py) > out.txt 2>&1",
    "x=$(.venv/bin/python -V) && echo $x",
    ".venv/bin/python -c 'print(abs(1) + 2)'",
    "(ls) 2>&1; .venv/bin/python a.py",
    "python3 -c \"import sys; [print(l.split('/')[-1], usr, etc) for l in sys.stdin]\"",
    'docker run --rm -v "$PWD":/usr -w /usr alpine ls bin',
]
CALCULATED = [
    "echo $((4 / 2))",
    "bash -c 'echo $((4 / 2))'",
    'echo "half: $(( n / 2 ))"',
    "x=$((10 / 3)); echo $x",
    "expr 4 / 2",
    "echo a; expr 8 / 2 / 2",
    "cut -d / -f 1 a.txt",
    "cut -d '/' -f 2 a.txt | sort -t / -k 2",
    "tr / _ < a.txt",
    'echo a/b | tr "/" _',
    "cut -d / -f 1 a.txt 2>&1 | sort | uniq -c",
    "n=10; test $((n / 3)) -gt 2 && echo ${n}%: $((n / 2)) > out.txt",
]
CALCULATED_OUT = [
    "ls $((1 / 1))",  # without a shell that is `ls /`
    "sort leak$((4 / 2))",
    "sort $((4 / 2))leak",
    "x=(expr 4 / 2); ls ${x[@]}",
    "x=1 ls $((1 / 1))",
    "echo; ls >| expr 4 / 2",
    "echo; ls >& expr 4 / 2",
    "echo; ls \\; expr 4 / 2",
    'echo; ls "" expr 4 / 2',
    "echo; ls sort -t / -k 1",
    "echo $(ls /)",
    "echo `ls /`",
    "echo; xargs ls <<E\nexpr 4 / 2\nE",
    "bash -c 'ls tr '/' x'",
    "bash -c 'echo' 'ls' /",
    "ls | tr / _",
    "ls expr 4 / 2",
    "echo / | xargs ls",
    "echo a; ls /",
    "expr 4 / 2; ls /",
    "cut -d / -f 1 ../private/x",
    "tr / _ < leak",
    "sort -t / leak",
    "echo $((cat ../private/x) | head)",
    "echo $((cat leak; ls) )",
    "echo $((4 / 2))/../../private/x",
    "echo; cat l$((4 / 2))/../../private/x",
    "alias expr=ls; expr 4 / 2",
    "tr() { ls $1; }; tr / _",
    "xtr / _",
    "echo / ; echo $_*",
    "test -d / && echo $_*",
    "bash -c 'echo / ; echo $_*'",
    "echo '*' / ; echo /$_",
    "sort $((6 / 2))",
    'sort "$((6 / 2))"leak',
    "tr 1 2 < $((6 / 2))",
    "echo x > $((6 / 2))",
    "x=$((6 / 2)); sort $x",
    "sort -S 1 -T / a.txt",
    "sort -S 1 -uT / a.txt",
    "sort --temp / a.txt",
    "sort a.txt ; echo $((4 -T / 2))",  # without a shell that is `sort -T /`
    "echo ls / | sort -S 1 --compress-program=sh",
    "printf -v x %s%s / '*'; echo $x",
    "echo %s%s / passwd | wc --files0-from=-",
    "PATH=src; cut -d / -f 1 a.txt",
    "sort d\r/\rx",
]
SEARCHED = [
    "export PATH=$PATH:./bin",
    'export PATH="./bin:$PATH" && ls',
    "PATH=./node_modules/.bin:${PATH} tsc",
    "cd src && export PATH=$PATH:bin && ls",
    "bash -lc 'export PATH=bin:$PATH && tsc'",
    'env "PATH=bin:$PATH" tsc',
    'export PATH="$(pwd)/bin:${PWD}/node_modules/.bin:$PATH"',
]
SEARCHED_OUT = [
    "export PATH=$PATH:../private",
    "PATH=../private:$PATH ls",
    "PATH=$PATH cat leak",
    "cat PATH=$PATH/../../private/x",
    "ls $PATH",
    "IFS=:; ls PATH=$PATH",
    "xargs -d : ls <<E\nPATH=$PATH\nE",
    "echo 'x;PATH='$PATH | xargs -d : ls",
    "x=PATH=$PATH; IFS==:; ls $x",
    "PATH=dlea; PATH=${PATH}k x",
    "PATH=$PWD/../private:$PATH x",
]
SIGNS = [
    '[[ "$x" =~ ^/api ]] && echo y',
    "perl -ne 'print if $_ =~ /foo/' a.txt",
    "git log @{u}..",
    "git log --oneline 'HEAD@{1}'..HEAD",
    "git diff @{upstream}...",
]
SIGNS_OUT = [
    "cat x=~/y",
    "ls ~ =~ x",
    "cat @{u}/../../private/x",
    "cat {a,..}/private/x",
    "cat x@{u,../private/x}",
    "cat l$@eak{u}",
]
VARIABLES = [
    "for d in */; do ls $d/; done",
    'DIR=src && cp a.txt "$DIR/"',
    "ls *.txt | while read -r f; do cp $f out/$f; done",
    "find . -type d -exec ls {}/ \\;",
    "awk '{print $1/$2}' a.txt",
    "cp -r {src,test}/ out",
    "cp $OUT/*.no-such out",
]
TOP = [
    "ls $x/",
    'grep -rh root "$x/"',
    "find ${x}/$y -name x",
    "ls /$1",
    "ls {/,a}",
    "tar c {a,/.}",
    "ls /{,a}",
    "ls {,a}/",
    "ls --file={/,a}",
    "ls /.[.]",
    "ls $x/..",
    "bash -c 'ls $x/'",
    "x=; ls $x/",
    "ls $x/*",
    "ls {,\ra}/",
    "ls {,\u00a0}/",
    "cat {/,a}?*/passwd",
    "cat $x/[[:alpha:]]tc/passwd",
    "ls {/," + ",".join(f"a{n}" for n in range(300)) + "}",
]
PROGRAMS_OUT = [
    "cat .venv/bin/python",
    ".venv/bin/python .venv/bin/python",
    "sh < .venv/bin/python",
    ". .venv/bin/python",
    "echo x > .venv/bin/python",
    "echo x >| .venv/bin/python",
    "echo x >& .venv/bin/python",
    "echo x &> .venv/bin/python",
    "xargs tee <<'E'\n.venv/bin/python\nE",
    "$(echo tee) .venv/bin/python",
    "`echo tee` .venv/bin/python",
    "tee <(ls) .venv/bin/python",
    "a=(.venv/bin/python); echo x > ${a[0]}",
    ".venv/bin/leak",
    ".venv/bin/tool",
    "./leak",
    "src/../../private/bin/x",
]
RICH_OUT = [
    f"curl http://localhost/x -d '{_BODY}' -T {{}}",
    f"curl http://localhost/x -F 'f=@{{}};headers=\"{_BODY}\"'",
    f"bash -c 'echo {_BODY}; cat {{}}'",
    f"bash -c 'cat<{{}};echo {_BODY}'",
    f"python3 -c \"{_SCRIPT}; print(open('{{}}').read())\"",
    f'echo \'{_BODY[:-1]},"z":"{{}}"}}\' | jq -r .z | xargs cat',
]
BRACES_OUT = [
    "cat {{.,{letters}}}./private/x",
    "cat le{{{letters},ak}}",
    f"bash -c 'cat {{.,z}}./private/x;echo {_BODY}'".replace("{", "{{").replace("}", "}}"),
]
SHELLS = [
    "bash -c 'npm test && echo \"a / b\"'",
    "sh -c 'ls src | grep a/b'",
    'bash -lc "cd src && ls"',
    'eval "$(ssh-agent -s)"',
    "python3 -c 'print(4 / 2)'",
    "docker run --rm img sh -c 'ls /'",
    "echo $x; python3 -c 'print(4 / 2)'",
    "X=$Y python3 -c 'print(4 / 2)' $x",
]
SHELLS_OUT = [
    "bash -c 'ls /'",
    'bash -lc "tar c / | wc"',
    "sh -ec 'cd src; bash -c \"ls /\"'",
    r'bash -c "bash -c \"ls /\""',
    "eval 'ls /'",
    "sudo su -c 'find / -name x'",
    "/bin/sh -c 'ls ~'",
    "bash -ce 'ls /'",
    "sh -xcu 'ls /'",
    "bash -c -e 'ls /'",
    "bash -c -- 'ls /'",
    "eval -- 'ls /'",
    "$SHELL -c 'ls /'",
    "\"${BASH}\" -e -c 'ls /'",
    "ba$x''sh -c 'ls /'",
]
CREATED = [
    "grep -o /api src/a.py",
    "rsync -a --exclude=/build --exclude /dist src/ build/",
    "rsync -a --exclude '/node_modules/' src/ build/",
    "curl -X GET http://localhost/api -o build/x",
    "kubectl get --raw /healthz",
    "gh api /repos/o/r",
    "touch src/new.py && echo /api",
    "echo x > build/x; echo /api",
    "az rest --url /subscriptions",
    "redis-cli GET /a",
    "cat a.txt > build/x 2>&1 && gh api /repos/o/r",
]
CREATED_OUT = [
    "touch /newname",
    "echo x > /newname",
    "> /newname",
    ">/newname",
    "echo x >| /newname",
    "echo x &> /newname",
    "echo x > $y/name",
    "echo x > //newname",
    "mkdir /newdir",
    "mkdir -p /newdir/a",
    "cp a.txt /newname",
    "cp -t/newdir a.txt",
    "cp -t/ a.txt",
    "cp --target-directory=/newdir a.txt",
    "unzip -d/ a.zip",
    "unzip a.zip -d/newdir",
    "tar xf a.tgz -C /newdir",
    "tar xf a.tgz -C/newdir",
    "dd if=a.txt of=/newname",
    "tee /newname < a.txt",
    "ls | tee -a /newname",
    "sudo touch /newname",
    "cd src && mkdir /newdir",
    "x=1 touch /newname",
    "xargs touch /newname",
    "find . -exec cp {} /newdir \\;",
    "sh -c 'touch /newname'",
    'bash -c "echo x > /newname"',
    "touch {/newname,a}",
    "touch $x/newname",
    'touch "/newname"',
    "touch /new*",
    "git clone https://github.com/o/r /newdir",
    "git init /newdir",
    "python -m venv /newdir",
    "curl -o /newname http://x",
    "curl --output /newname http://x",
    "curl --output=/newname http://x",
    "curl -o/newname http://x",
    "wget -O /newname http://x",
    "wget -P /newdir http://x",
    "sort -o /newname a.txt",
    "gcc -o /newname a.c",
    "pytest --junitxml=build/x --basetemp-dir=/newdir",
    "openssl genrsa -out /newname",
    "rsync -a src/ /newdir/",
    "touch <a.txt /newname",
    "touch 2>&1 /newname",
    "touch $(echo a) /newname",
    "mv a.txt /newname",
    "install -m 644 a.txt /newname",
    "ln -s a.txt /newname",
    "x=>/newname",
    "exec 3>/newname",
    "cat <<EOF > /newname\nx\nEOF",
    "cat > /newname <<EOF\nx\nEOF",
    "(echo x)>/newname",
    "{ echo x; } > /newname",
]
ASSIGNED = [
    "for d in */; do ls $d/; done",
    "for d in a b c; do mkdir -p $d/src; done",
    'DIR=src && cp a.txt "$DIR/"',
    "DIR=build; mkdir -p $DIR/x && cp a.txt $DIR/",
    "OUT=build; for f in *.txt; do if [ -f $f ]; then cp $f $OUT/; fi; done",
    "for f in *.txt; do o=${f%.txt}; mkdir -p $o/x; done",
    "ls *.txt | while read -r f; do cp $f build/$f; done",
    "D=$(mktemp -d build/XXXX); cp a.txt $D/",
    'x="hello world"; echo "$x"',
    'set -e; DIR=build; mkdir -p "$DIR/x"',
    "A=1 B=2 npm start",
    "for i in 1 2; do for j in a b; do echo $i$j; done; done",
    "X=src; Y=$X/a.py; cat $Y",
    'export DIR=build\nmkdir -p "$DIR/x"\ncp a.txt "$DIR/"',
    "for d in $DIRS; do mkdir -p $d/x; done",
    'DIR="$PWD/build"; mkdir -p "$DIR/x"',
    'DIR="$(pwd)/build" && mkdir -p "$DIR/x"',
    "DIR=$PWD/build; mkdir -p $DIR/x",
    'ROOT=$(git rev-parse --show-toplevel); D="$ROOT/x"; mkdir -p "$D"',
    'for f in src/*.py; do n=$(basename "$f" .py); mkdir -p build/$n; done',
]
ASSIGNED_OUT = [
    'x=" /"; ls $x',
    "x=.; cat $x./private/secret.txt",
    "a=le; cat ${a}ak",
    'a=le; cat "${a}ak"',
    "a=/e b=tc; cat $a$b/passwd",
    "a=/; b=$a; ls $b",
    "a='.. x'; ls $a",
    "x=/e; x+=tc/passwd; cat $x",
    'for x in " /" b; do ls $x; done',
    'read x <<< " /"; ls $x',
    "x='ls /'; $x",
    "x='ls /'; sh -c \"$x\"",
    "x=/; docker run -v $x:/y alpine",
    "x=y; x=; ls $x/",
    "(x=y); ls $x/",
    "x=y true; ls $x/",
    "echo x=y; ls $x/",
    "x=y ls $x/",
    "true | x=y; ls $x/",
    "echo ';x=y;'; ls $x/",
    "ls a #;x=y;\nls $x/",
    "cat <<E\n;x=y;\nE\nls $x/",
    "f() { x=y; }; ls $x/",
    "false && x=y; ls $x/",
    "if false; then x=y; fi; ls $x/",
    "x=y & ls $x/",
    "x=y; unset x; ls $x/",
    "echo | while read f; do ls $f/; done",
    'for x in ""; do ls $x/; done',
    "x=$y; ls $x/",
    'x="$y"; ls $x/',
    "x=''; ls $x/",
    "IFS=y; x=y; ls $x/",
    "ls $x/; x=y",
    "mkdir $x/new",
    "x=y | mkdir $x/new",
    "x=; y=${x}/etc; cat $y/passwd",
    "for i in a b c; do x=.; done; cat $x./private/secret.txt",
    "export x=.; cat $x./private/secret.txt",
    "while read f; do mkdir $f/new; done",
    'for x in "$@"; do ls $x/; done',
    'x="${y}"; ls $x/',
    "for x in a ''; do ls $x/; done",
    "for x in $(echo a); do :; done; ls $x/",
    "x=a; : $((x=0)); ls $x/",
    "x=.$z; cat $x./private/secret.txt",
    "x=.${z%a}; cat $x./private/secret.txt",
]
FOUND = [
    "for d in s*/; do ls $d; done",
    "cat *.md",
    "cat src/*",
    "find . -name 'l*'",
    "grep -r 'l*' src",
    "ls src/*.py | wc -l",
    "git add 's*'",
    "cat *.txt *.md",
    "ls d*",
    'case "$x" in a/*) echo a;; *) echo b;; esac',
    "if [[ $x == */* ]]; then echo z; fi",
    'curl -H "Accept: */*" https://example.com/',
    "zip -r x.zip . -x './node_modules/*' '*/.git/*'",
    "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: b.txt\n+l*\n*** End Patch\nEOF",
    "cat > b.txt <<EOF\nl* and *\nEOF",
]
FOUND_OUT = [
    "sort l*",
    "cat lea?",
    "cat [l]eak",
    "cat *",
    "cat ./l*",
    "cat {l,x}*",
    "cat l{e..e}ak",
    "cat $PWD/l*",
    "cd src && cat ../l*",
    "cat src/*/x; cat l*",
    'sort "$((6 / 2))"',
    "sort $((6-3))",
    "cat $((1+2))",
    "cat $((n))",
    "cat {1..5}",
    "for i in {1..5}; do cat $i; done",
    "cat $[1+2]",
    "for f in l*; do cat $f; done",
    "x='l*'; cat $x",
    "tar cf x.tar l*",
    "cat o*/secret.txt",
    "cat */secret.txt",
    "sh -c 'cat l*'",
    'cat "l"*',
    "cat 'l'?ak",
    "case $x in a) cat l*;; esac",
    "[ -f a.txt ] && cat l*",
    "cat <<E\nE\ncat l*",
    "cat <<E\n$(cat l*)\nE",
    "bash <<E\ncat l*\nE",
    "cat <<E | sh\ncat l*\nE",
    "cat '<<E\n'; cat l*\nE",
    "cat #<<E\ncat l*\nE",
    "cat <<E\nx\n E\ncat l*\nE\ncat l*",
]
HANDED_ON = [
    "watch -n 2 'kubectl get pods'",
    "tmux new-session -d -s x 'npm start'",
    "tmux send-keys -t x 'npm test' Enter; echo \"a / b\"",
    'npx concurrently "npm:dev" "npm run x"',
    "git rebase --exec 'make test' main",
    "script -q -c 'npm test' build/log.txt",
    "nodemon --exec 'python3 src/a.py'",
    'nodemon --watch src --exec "ts-node src/a.ts"',
    "hyperfine 'grep -r a/b src'",
    'npm run build && echo "a / b"',
    "python3 -c 'print(4 / 2)'",
    "PAGER=cat git log",
    "EDITOR='code --wait' git commit",
    "node -e 'console.log(4 / 2)' && npm test",
    "docker compose run --rm api sh -c 'echo a'",
    "cargo run -- --x 'a / b'",
    "npm run x -- 'a / b'",
    "gh run list --json 'a'",
]
HANDED_ON_OUT = [
    "watch 'ls /'",
    'watch -n 2 "ls /"',
    "tmux new-session -d 'ls /'",
    "tmux send-keys -t x 'ls /' Enter",
    "script -c 'ls /' build/x",
    'script -qc "ls /" /dev/null',
    "parallel 'ls / {}' ::: a",
    "flock build/l -c 'ls /'",
    "npx -c 'ls /'",
    "npm exec -c 'ls /'",
    "nodemon --exec 'ls /'",
    "nix-shell -p jq --run 'ls /'",
    "git rebase --exec 'ls /' main",
    "git rebase --exec='ls /' main",
    "git -c alias.x='!ls /' x",
    "git submodule foreach 'ls /'",
    "GIT_SSH_COMMAND='ls /' git fetch",
    "PAGER='ls /' git log",
    "env -S 'ls /'",
    "tar cf x.tar src --to-command='ls /'",
    "tar cf x.tar src --checkpoint=1 --checkpoint-action=exec='ls /'",
    "ssh -o ProxyCommand='ls /' h",
    "find . -exec sh -c 'ls /' \\;",
    "find . -exec ls / \\;",
    "find . -exec cat leak \\;",
    "find . -ok cat l* \\;",
    "xargs -I{} sh -c 'ls /'",
    "timeout 5 sh -c 'ls /'",
    "entr -s 'ls /'",
    "hyperfine 'ls /'",
    'concurrently "ls /" "npm start"',
    "screen -S x -X stuff 'ls /'",
    "expect -c 'spawn ls /'",
    "watch 'touch /newname'",
    "tmux new -d 'sh -c \"ls /\"'",
]
OUT = [
    "PYTHONPATH=$PWD:$PWD/../private pytest",
    "PYTHONPATH=src:leak pytest",
    "cat '' ../private/x",
    "cat ''../private/x",
    "cat '#!/etc/passwd'",
    "cat <<'EOF'\n#!../private/x\nEOF",
    "cat /bin/sh",
    "cat x /dev/sda",
]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(
        tmp_path,
        "project/a.txt",
        "project/src/a.py",
        "project/leak => ../private/x",
        "private/x",
        "project/.venv/bin/python => /usr/bin/python3",
        "project/.venv/bin/python3 => python",
        "project/.venv/bin/leak => ../../../private/x",
        "project/.venv/bin/tool => ../../../private/bin/tool",
        "project/.venv/bin/python3.12 => ../../../private/bin/python3.12",
    )


def objection(top: Path, command: str) -> str | None:
    env = {"HOME": f"{top}/home", "PATH": "/usr/bin:/bin"}
    world = context(share(top / "project"), top / "project", env=env)
    judge = Judge(world, Policy(), needs_write=True)
    return judge.objection(PathCandidate("/command", "command", Kind.COMMAND, command, ""))


@pytest.mark.parametrize(
    "command",
    [
        *LISTS,
        *COMPUTED,
        *SHELLS,
        *EMPTY,
        *STARTED,
        *RICH,
        *WILD,
        *PROGRAMS,
        *CALCULATED,
        *SEARCHED,
        *SIGNS,
        *VARIABLES,
        *CREATED,
        *ASSIGNED,
        *FOUND,
        *HANDED_ON,
    ],
)
def test_a_command_of_every_day_is_let_through(top: Path, command: str) -> None:
    assert objection(top, command) is None


@pytest.mark.parametrize(
    "command",
    [
        *OUT,
        *SHELLS_OUT,
        *WILD_OUT,
        *PROGRAMS_OUT,
        *CALCULATED_OUT,
        *SEARCHED_OUT,
        *SIGNS_OUT,
        *TOP,
        *CREATED_OUT,
    ],
)
def test_a_command_like_it_that_leads_outside_is_refused(top: Path, command: str) -> None:
    assert objection(top, command) is not None


@pytest.mark.parametrize("command", FOUND_OUT)
def test_a_command_whose_wildcards_meet_a_link_outside_is_refused(top: Path, command: str) -> None:
    plant(top, "project/3 => ../private/x", "project/outside => ../private")
    assert objection(top, command) is not None


@pytest.mark.parametrize(
    "path", ["leak", "./leak", "../private/x", "src/../leak", "{top}/private/x"]
)
@pytest.mark.parametrize("command", RICH_OUT)
def test_a_path_among_many_signs_is_judged(top: Path, command: str, path: str) -> None:
    path = path.replace("{top}", str(top))
    assert objection(top, command.replace("{}", path)) == OUTSIDE
    assert objection(top, command.replace("{}", "src/a.py")) is None


@pytest.mark.parametrize("command", BRACES_OUT)
def test_many_alternatives_in_braces_hide_no_path(top: Path, command: str) -> None:
    letters = ",".join("abcdefghijklmnopqrstuvwxy")
    assert objection(top, command.format(letters=letters)) is not None
