import pytest

from hub.guard.keys.key_words import is_label, is_mount, is_revision, kind_of_key, words_of
from hub.guard.keys.vocabulary import Kind

PATHS = """
    path file filePath file_path filepath fileName file_name filename FILE_PATHS paths directories
    projectRoot workspaceRoot saveTo save_as extract_to filesToStage repo_path cwd pathInProject
    file_path_to_x fromFile toPath PATH output_filename file_list path2 imagepath outputdir ruta
    archivo datei
    путь_к_файлу 文件路径 パス content_file folder-name dirname reportFilePath
    file_names file_location check_path imagepath_list outputdir_str pdffile_name
    file_before csvfile_arg path_argument
    répertoire diretório klasör sökväg složka ścieżka fájl Zielpfad Dateipfad dosya_yolu fil berkas
    archivo_salida fichierDeSortie arquivo_saída carpeta_destino فایل फाइल fname
"""
GLOBS = (
    "glob pattern filePatterns file_mask paths_include_glob excludePaths include_files path_filter"
)
WEAK = """
    src dst output target destination repo template config image css_path svgPath htmlPaths
    output_json_path binds
"""
PAYLOADS = """
    content text body sql query xpath jsonpath jq_path x_path
    content_base64 old_string file_contents text_to_find text_in_file content_of_file
    observations facts matchers content_after text_before code_edit content_block
    output_text input_md
"""
VIRTUAL = """
    url_path cookiePath name_path healthCheckPath callback_path symbol_path routePath dom_path
    object_path areaPath iteration_path navigation_path
"""
EITHER = """
    contentFrom content_from_file body_at_path messageToFile sqlFromFile
    save_to_file loadFromPath output_md exportHtml
    path_or_content file_or_text textOrFile html_or_file fileOrQuery path_or_description
"""
COMMANDS = (
    "command cmd args extraArgs argv command_line commandLine shellScript bash bash_code cmd_text"
    " jq_args findArguments search_args command_string"
)
NEUTRAL = """
    patchText diff_content patch_body
    profile profiles file_type file_id fileKey folder_color pathology multipath empathy name value
    x from to location max_files maxFileCount userProfile refers_to sheet_name a1 _ 123
    archivo_id fichier_version
    filenameSuffix xml_root connection_string connectionStr conn_str url_string
"""


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (key, kind)
        for keys, kind in (
            (PATHS, Kind.PATH),
            (GLOBS, Kind.GLOB),
            (WEAK + " xml_root", Kind.WEAK),
            (PAYLOADS, Kind.PAYLOAD),
            (VIRTUAL, Kind.VIRTUAL),
            (EITHER, Kind.WEAK),
            ("file_or_directory", Kind.PATH),
            ("text_or_html", Kind.PAYLOAD),
            ("ingress.example.io/rewrite-target pathname fn", Kind.NEUTRAL),
            (COMMANDS, Kind.COMMAND),
            (NEUTRAL.replace("xml_root", ""), Kind.NEUTRAL),
        )
        for key in keys.split()
    ],
)
def test_a_key_says_how_its_values_are_judged(key: str, kind: Kind) -> None:
    assert kind_of_key(key)[0] is kind


def test_the_reason_names_the_word() -> None:
    assert kind_of_key("outputFilePath")[1] == "'path' is a word for a path"
    assert kind_of_key("文件")[1] == "'文件' is a word for a path"
    assert kind_of_key("source")[1] == "'source' is a word for what may be a path"
    assert kind_of_key("content")[1] == "'content' is a word for a payload"
    assert kind_of_key("x")[1] == "nothing says that it is a path"
    assert kind_of_key("")[0] is Kind.NEUTRAL


def test_words_have_no_case_and_no_plural() -> None:
    assert words_of("XMLFilePaths_toTheDirectories2") == [
        *("xml", "file", "path", "to", "the", "directory")
    ]
    assert words_of("base64") == ["base64"]


def test_a_key_s_file_is_no_label() -> None:
    assert is_label("key")
    assert is_label("state")
    assert not is_label("private_key")
    assert not is_label("storageState")


def test_revisions() -> None:
    assert is_revision("branch_name")
    assert not is_revision("sort")


def test_mounts() -> None:
    assert is_mount("extra_volumes")
    assert is_mount("Binds")
    assert not is_mount("volume_name")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("foo_or_bar", "nothing says that it is a path"),
        ("content_or_text", "'content or text' is a word for a payload"),
        ("path_or_file", "'path or file' is a word for a path"),
    ],
)
def test_a_choice_is_known_by_its_words(key: str, why: str) -> None:
    assert kind_of_key(key)[1] == why
