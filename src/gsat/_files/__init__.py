"""Files written whole or not at all, by one process at a time, and JSON of others read within bounds."""

from gsat._files.bounded import LARGEST, parse_json, read_bytes, read_json
from gsat._files.drafts import (
    append_line,
    recover,
    remove_dead_drafts,
    replace_file,
    replace_files,
    whole_file,
    whole_folder,
    write_durably,
)
from gsat._files.locks import LOCK, free_lock, is_ours, locked

__all__ = [
    "LARGEST",
    "LOCK",
    "append_line",
    "free_lock",
    "is_ours",
    "locked",
    "parse_json",
    "read_bytes",
    "read_json",
    "recover",
    "remove_dead_drafts",
    "replace_file",
    "replace_files",
    "whole_file",
    "whole_folder",
    "write_durably",
]
