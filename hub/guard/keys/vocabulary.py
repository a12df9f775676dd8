"""Word lists that tell which arguments are paths: data, no logic.

`key_words.py` splits a key into words in the singular and finds the word that matters. To teach the
guard a word, add it here, and add a row to `tests/guard/data/catalogue.jsonl`.
"""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """How the values of an argument are judged: which of them count as paths."""

    PATH = "path"
    """Every value, whatever it looks like."""
    GLOB = "glob"
    """The part before the first wildcard; `..` after that is refused."""
    WEAK = "weak"
    """Values that look like a path or a `file:` URI."""
    NEUTRAL = "neutral"
    """Values that look like a path; an absolute one only if its first component exists here."""
    PAYLOAD = "payload"
    """Only a value that is a `file:` URI as a whole."""
    COMMAND = "command"
    """The shell tokens of the value."""
    VIRTUAL = "virtual"
    """No file path, such as a URL's path: only values that go out with `..`, and local URIs."""
    IGNORE = "ignore"
    """No value; only the operator can set this."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(*rows: str) -> list[list[frozenset[str]]]:
    return [[_words(cell) for cell in row.split("|")] for row in rows]


FIRST_PATH_WORDS = _words(
    "ruta archivo fichero carpeta directorio chemin fichier dossier repertoire caminho arquivo"
    " pasta diretorio percorso cartella fisier berkas"
)
"""Of languages in which such a word goes first: `archivo_salida`, `fichier_sortie`."""
PATH_WORDS = FIRST_PATH_WORDS | _words(
    "path file filename fullname directory dirname folder foldername subdirectory subfolder cwd pwd"
    " worktree pathspec fname dateiname speicherort bestand bestandsnaam bestandspad plik sciezka"
    " katalog dosya klasor yol yolu dosyayolu tiedosto hakemisto polku kansio sokvag mapp mappe"
    " mappa fil filnamn filnavn filsti soubor cesta slozka adresar subor priecinok datoteka putanja"
    " fajl utvonal konyvtar cale dosar tep"
)
"""Without the marks of letters, which keys lose: `répertoire`, `ścieżka`."""
PATH_SCRIPTS = _words(
    "файл путь папка каталог директор шлях тека фајл путања датотека 路径 路徑 文件 文档"
    " 檔案 目录 目錄 資料夾 パス ファイル フォルダ ディレクトリ 파일 경로 폴더 디렉 ملف مسار"
    " مجلد קובץ נתיב תיקי फ़ाइल फाइल पथ ফাইল فایل مسیر پوشه ไฟล์ เส้นทาง αρχείο"
    " διαδρομή φάκελος"
)
"""Words of scripts and languages that join words without a mark: found anywhere in a key."""
PATH_ENDINGS = tuple(
    _words("path paths file files filename dir dirs folder directory pfad datei ordner verzeichnis")
)
"""A word that ends like this is a path, unless it is in NOT_PATHS: `imagepath`, `outputdir`."""
NOT_PATHS = _words("telepath psychopath empath footpath warpath multipath multipaths nadir defile")
WEAK_WORDS = _words(
    "src dst source destination dest target output out root base workspace vault db database"
    " config configuration conf template log doc document image img picture photo screenshot"
    " video audio recording media attachment artifact asset archive backup dump binary"
    " executable bundle plugin dataset notebook repo repository project mount volume binds"
    " certificate cert keystore keyfile credentials ini dotenv playlist font subtitle home"
)
GLOB_WORDS = _words("glob pattern mask wildcard include exclude ignore fileset ignored")
SELECTING_WORDS = _words(
    "include exclude ignore select filter allow deny allowed denied skip only match matching"
    " included excluded ignored blocked"
)
"""Before a path word: the argument is a list of patterns, as in `excludePaths`, `include_files`."""
PAYLOAD_WORDS = _words(
    "content text body message msg sql code query q search prompt description desc comment note"
    " title summary regex regexp expression expr formula selector locator xpath jsonpath jmespath"
    " csspath urlpath css html markdown md xml javascript js typescript function snippet statement"
    " string str base64 b64 payload instruction question answer thought rationale reason caption"
    " heading header footer footnote keyword needle repl replacement replace paragraph markup goal"
    " intent subject pointer jq jql cql graphql gql mutation find line tooltip chat reply abstract"
    " excerpt quote observation objective feedback fact hypothesis conclusion finding matcher"
    " cypher sparql promql logql soql wiql kql term row cell explanation detail reasoning remark"
    " password passphrase element suggestion critique bullet"
)
VIRTUAL_WORDS = _words("endpoint route")
OUTPUT_WORDS = _words("output out dest destination save export")
FORMATS = _words("html css md markdown xml js javascript ts typescript sql")
"""After one of these words a file that is written, as in `output_md`; else its text."""
SHELL_WORDS = _words("command cmd shell bash sh zsh powershell pwsh cli")
COMMAND_WORDS = SHELL_WORDS | _words("commandline cmdline arg argv argument flag exec invocation")
ARGUMENT_WORDS = _words("arg argv argument flag param parameter option")
SCRIPT_WORDS = _words("line text script code")
"""After one of `SHELL_WORDS`: a command, as in `command_line`, `shell_script`."""
RUNNING_WORDS = _words("run exec execute eval evaluate interpret")
"""In a tool's name: it runs a `script` or `code`, and with one of `SHELL_WORDS` commands."""
SCRIPT_READERS = SHELL_WORDS - {"command", "cmd", "cli"}
"""In a tool's name: its scripts are for a shell."""
REACHING_WORDS = _words("read get open load view show delete remove rename move")
"""Before `note`, `snippet` or `prompt`: an argument of that name is the name of one."""
TYPED_WORDS = _words("input stdin keys keystroke keystrokes chars send run")
"""Perhaps what is typed into a running program, such as a shell: a line of words."""
TYPING_WORDS = _words("send type write feed pass paste input interact key keys")
TERMINAL_WORDS = _words("tmux terminal pty iterm pane console repl process stdin shell")
"""Both in a tool's name or a text's description: what is typed into a program is that text."""
GOES_ELSEWHERE = _table(
    "| helm | value set set_string set_literal",
    "| kubectl kubernetes | patch patch_data manifest spec body from_literal",
    "| container pod | exec execute run create recreate start launch deploy"
    " | command cmd entrypoint env environment env_var",
    "container container_id container_name pod pod_name | exec execute run | command cmd",
    "service service_name | compose | exec run | command cmd",
    "| ssh | exec execute run command | command cmd cwd workdir work_dir working_dir"
    " working_directory",
    "host host_name server server_name machine | ssh | tail cat read grep stat"
    " | file file_path path",
    "host host_name server server_name machine | remote | exec execute run command | command cmd",
    "| adb | shell | command cmd",
    "| playbook ansible | extra_var",
    "url uri endpoint http_method | body header",
    "| http https rest webhook | request call send invoke post put patch | body",
    "| api | post put patch | body",
    "url uri | http https request fetch rest webhook post put patch api"
    " | json data payload param query",
    "sql statement cypher | param parameter binding binds value arg",
    "query | sql query db database cypher neo postgres pg mysql sqlite duckdb"
    " | param parameter binding",
    "query | variable",
    "table table_name table_id | row record data value where",
    "collection collection_name | filter pipeline update projection sort definition query",
    "collection collection_name | insert update replace upsert mongo db | document",
    "sheet sheet_name spreadsheet_id | value data row cell table_data",
    "name title | sheet spreadsheet | value data row",
    "row col table_data | table | value data row cell table_data",
    "| csv | write append save | data row",
    "index | search query elasticsearch opensearch es | body query_body",
    "function_name | lambda serverless aws sam | payload event event_data",
    "resource_name | lambda serverless sam | payload event event_data",
)
"""Arguments (none: any), words that a tool's name has one of each of, and what goes elsewhere.

It goes to a cluster, a container, or the place that such an argument names: as an object, a list,
or a text that is a payload. A path is one of that place. Other texts may be commands for a shell of
this machine.
"""
SPEAK_BESIDE = _words("query sheet index name title row col")
"""Those of them with a usual name: they tell of the arguments beside them, not of inner ones."""
KEPT_ELSEWHERE = _table(
    "redis hset hget hgetall lpush rpush sadd zadd xadd | key name field value member channel",
    "mqtt ros kafka | topic topics topic_name topicName payload",
    "breakpoint | condition",
)
"""In a tool's name or a text's description, and what then names nothing on this machine."""
SHELLS = _words("bash zsh")
"""In a command's description or in the name of it or its tool: such a shell reads the command."""
FILE_PATTERNS = _words("glob file_glob file_pattern include_pattern file_mask")
"""Beside one of these a `pattern` is a text, and no glob."""
HOSTING_WORDS = _words("compose host build local git upload download")
"""With these words in its name, a tool may use those on this machine."""
GREPPING_WORDS = _words("grep ripgrep rg")
"""In a tool's name: its `pattern` is a text, and no glob."""
SOUGHT = _words("pattern regex query")
"""Arguments of such a tool that hold what it looks for."""
FINDING_WORDS = _words("search find")
"""The same before the last word `text`, `code` or `content`, as in `search_file_content`."""
FILLERS = _words("list array set value val str string param parameter item entry collection input")
"""After the word that matters these say nothing, as in `file_list`, `path_param`."""
LOCATOR_WORDS = _words("url uri link connection conn dsn address")
"""Before a filler: the name of a place, not a text, as in `connection_string`, `url_string`."""
NO_LABELS = {"key": _words("private public ssh signing deploy host pem"), "state": {"storage"}}
"""Behind these words perhaps a file, as in `private_key`, and so no label."""
CONTENT_WORDS = _words(
    "content text body code html css markdown md xml base64 b64 payload description desc comment"
    " note title summary message msg caption"
)
"""In an object under a path's name: the file's content or a text about the file, never a path."""
DATA_WORDS = _words("data blob line raw input source script patch diff new old v")
"""In an object of files: perhaps the file's content; a value with several lines is no path."""
TREE_WORDS = _words("tree structure hierarchy scaffold skeleton")
"""An object there may be a tree of folders: `{"file_tree": {"src": {"a.py": "..."}}}`."""
PATCH_WORDS = _words("patch diff")
"""In any text's name: the paths in the patch are judged, as in `patch_text`, `diffContent`."""
LABEL_WORDS = _words(
    "kind type status state label branch tag mode id uuid ref revision version level priority"
    " severity category role action operation op operator method event format encoding language"
    " lang locale unit color colour scope visibility sort order direction separator sep delimiter"
    " delim key keystroke shortcut hotkey char character symbol port"
)
"""Their values are no file names: a bare word passes, even if a link of that name exists."""
COUNTING_WORDS = _words("max min num number count total limit maximum minimum")
"""With a path word: a number of files, as in `max_files`."""
MEASURES = COUNTING_WORDS | _words(
    "size length line column col row offset index position start end depth level mode time date"
    " timestamp mtime ctime atime version revision width height priority score rank order page"
)
"""In an object under a path's name: a number that no schema declares, and that is no file."""
PREPOSITIONS = _words(
    "in to of for from on at with by under inside within into onto relative as before after"
)
FILE_PREPOSITIONS = _words("from to at into")
"""Between a text and a path: a file with the text, as in `content_from_file`."""
WRITING_VERBS = _words(
    "save write extract copy move export download output dump unzip unpack install store render"
    " put place convert log record link mount clone checkout print upload import load read restore"
)
"""Before a final preposition: a path, as in `saveTo`, `write_to`, `saveAs`, `loadFrom`."""
SHOWING_WORDS = _words(
    "get list read show view browse tree search find fetch blame count app apps application wiki ls"
)
"""In the name of a tool that may take `/` for the top of a repository, a drive or a bucket."""
OF_HERE = _words("file multipart part attachment upload source import hook pre post before after")
"""In the name of an object that may be read or run on this machine."""
MAY_LIST_FILES = _words("document manifest spec")
"""In a list of these a text may be the name of a file."""
PLACES = _words(
    "project workspace repo repository source src git vault root build install base code"
)
"""Before `root`: a path, as in `projectRoot`; `xml_root` need not be a path."""
REPOSITORY = _words("repository_id repo_id wiki_id wiki_identifier drive_id git_repository")
"""Beside one of these a path may be one in a repository of another machine."""
BESIDE_A_PLACE = _table(
    "bucket container bucket_name container_name | prefix",
    "github gitlab bitbucket | source_dir",
)
"""Beside one of the first the second may be elsewhere: a prefix in a bucket, such as `/`."""
DRIVES = _words("drive onedrive dropbox sharepoint")
"""In a tool's name: the same."""
ELSEWHERE = _words("remote sftp ftp cloud bucket hdfs")
"""Before `path`: a path of another machine, if the description says so, too, or there is none."""
HAVE_PATHS = _words("cookie route endpoint webhook healthcheck") | {"health check"}
"""Their `path` is no file path: `{"cookies": [{"path": "/"}]}`."""
OTHER_PATHS = _words(
    "url uri dom name symbol api http https field property career learning menu breadcrumb callback"
    " object bus dbus area iteration navigation"
) | {*HAVE_PATHS, *ELSEWHERE}
"""Before `path`: no file path, as in `url_path`, `name_path`."""
OF_FILES = _words("file folder local host point word")
"""Before one of these words a file path after all: `point_cloud_path`, `local_cloud_path`."""
QUERY_PATHS = _words("jq x")
"""Before `path`: a query into a document, where `..` is nothing special, as in `jq_path`."""
PERHAPS_PATHS = _words("css json xml html svg clip query class ui")
"""Before `path`: no file path, or the path of a file of that type, as in `svg_path`."""
MOUNT_WORDS = _words("volume mount binds")
"""The part of the value after a colon is a path in a container, as in `data:/var/lib/x`."""
CONTAINER_PATHS = _words("containerPath container_path ContainerPath")
OF_CONTAINER = _words(
    "container containerId container_id containerName container_name hostPath host_path"
)
"""Beside one of these, one of those is the absolute path in the container."""
PLACES_IN_CONTAINER = CONTAINER_PATHS | _words("bind mountPath mount_path")
"""In a mount's object: the absolute path in the container."""
TARGETS_IN_CONTAINER = _words("target Target dst Dst destination Destination")
"""The same, if the object says which `type` of mount it is."""
_SETS = {"op", "path", "value"}
PATCHES = {"add": _SETS, "replace": _SETS, "test": _SETS, "remove": {"op", "path"}}
"""The members of operations that change a document, or look into it."""
IN_CONTAINER = PLACES_IN_CONTAINER | TARGETS_IN_CONTAINER
MOUNT_TYPES = _words("bind volume tmpfs npipe cluster image")
REVISION_WORDS = _words(
    "branch ref revision rev commit commitish tag refspec remote sha head base target upstream onto"
)
"""Their values go to a version control tool as a revision: a leading `-` would be an option."""
PATH_FORMATS = _words(
    "path file-path filepath file_path filename file-name directory-path dir-path file directory"
)
PAYLOAD_FORMATS = _words("regex binary byte base64 html markdown textarea code")
