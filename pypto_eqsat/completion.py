"""Scripts that complete the command line in bash, zsh and fish, made from the parser, so that they know every option.

pypto-eqsat completion bash > /etc/bash_completion.d/pypto-eqsat
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

SHELLS = ("bash", "zsh", "fish")
#: options that do not take a file
_PLAIN = ("SECONDS", "N", "MIB", "NAME", "ADDRESS", "CMD", "CODE", "F", "NAME=VALUE", "[=REGEX]")


@dataclass(frozen=True, slots=True)
class _Option:
    """An option: its spellings, what follows it ("" nothing, "file", "folder", "word" anything else), the words that may follow, and what
    it is."""

    names: tuple[str, ...]
    takes: str
    words: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    help: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]
    files: bool


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script for a shell of `SHELLS`."""
    commands = list(_commands(parser))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _commands(parser: argparse.ArgumentParser) -> Iterator[_Command]:
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    for name, command in action.choices.items():
        options, words, files = [], tuple[str, ...](), False
        for a in command._actions:
            if a.option_strings:
                options.append(_option(a))
            elif a.choices is not None:
                words = tuple(map(str, a.choices))
            else:
                files = files or a.metavar in ("IN", "A", "B")
        yield _Command(name, helps[name], tuple(options), words, files)


def _option(a: argparse.Action) -> _Option:
    words = () if a.choices is None else tuple(map(str, a.choices))
    takes = ""
    if a.nargs != 0:
        takes = "word" if words or a.metavar in _PLAIN else "folder" if a.metavar == "DIR" else "file"
    return _Option(tuple(a.option_strings), takes, words, (a.help or "").partition(";")[0].replace("%%", "%"))


def _bash(commands: list[_Command]) -> str:
    lines = ["_pypto_eqsat() {", '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"', "    COMPREPLY=()"]
    lines += ["    if [ $COMP_CWORD -eq 1 ]; then", f"        COMPREPLY=($(compgen -W '{_names(commands)} --help --version' -- \"$word\"))"]
    lines += ["        return", "    fi", '    case "${COMP_WORDS[1]}" in']
    for c in commands:
        lines.append(f"    {c.name})")
        lines.append('        case "$before" in')
        for o in c.options:
            if o.takes:
                how = {"file": "-f", "folder": "-d", "word": f"-W '{' '.join(o.words)}'"}[o.takes]
                lines.append(f'        {"|".join(o.names)}) COMPREPLY=($(compgen {how} -- "$word")); return;;')
        lines += ["        esac", '        case "$word" in']
        spellings = " ".join(name for o in c.options for name in o.names)
        lines.append(f"        -*) COMPREPLY=($(compgen -W '{spellings}' -- \"$word\"));;")
        if c.words or c.files:
            how = f"-W '{' '.join(c.words)}'" if c.words else "-f"
            lines.append(f'        *) COMPREPLY=($(compgen {how} -- "$word"));;')
        lines += ["        esac;;"]
    lines += ["    esac", "}", "complete -o filenames -F _pypto_eqsat pypto-eqsat"]
    return "\n".join(lines)


def _zsh(commands: list[_Command]) -> str:
    lines = ["#compdef pypto-eqsat", "_pypto_eqsat() {", "    if (( CURRENT == 2 )); then", "        local -a commands=("]
    lines += [f"            {_quoted(f'{c.name}:{c.help}')}" for c in commands]
    lines += ["        )", "        _describe command commands", "        return", "    fi", "    case $words[2] in"]
    for c in commands:
        parts = [_zsh_option(o) for o in c.options]
        if c.words:
            parts.append(_quoted(f"*:word:({' '.join(c.words)})"))
        elif c.files:
            parts.append("'*:file:_files'")
        lines += [f"    {c.name})", "        shift words; (( CURRENT-- ))", "        _arguments \\"]
        lines += [f"            {part} \\" for part in parts]
        lines += ["            && return;;"]
    lines += ["    esac", "}", "if (( $+functions[compdef] )); then compdef _pypto_eqsat pypto-eqsat; fi"]
    return "\n".join(lines)


def _zsh_option(o: _Option) -> str:
    about = o.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    after = {"": "", "file": ":file:_files", "folder": ":folder:_files -/", "word": f":value:({' '.join(o.words)})"}[o.takes]
    alone = f"({' '.join(o.names)})" if len(o.names) > 1 else ""
    return " ".join(_quoted(f"{alone}{name}[{about}]{after}") for name in o.names)


def _fish(commands: list[_Command]) -> str:
    lines = ["complete -c pypto-eqsat -f"]
    names = _names(commands)
    alone = f"complete -c pypto-eqsat -n 'not __fish_seen_subcommand_from {names}'"
    lines += [f"{alone} -a {c.name} -d {_quoted(c.help)}" for c in commands]
    for c in commands:
        start = f"complete -c pypto-eqsat -n '__fish_seen_subcommand_from {c.name}'"
        if c.words:
            lines.append(f"{start} -a {_quoted(' '.join(c.words))}")
        elif c.files:
            lines.append(f"{start} -F")
        for o in c.options:
            spelled = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in o.names)
            after = {"": "", "file": " -r -F", "folder": " -x -a '(__fish_complete_directories)'", "word": " -x"}[o.takes]
            words = f" -a {_quoted(' '.join(o.words))}" if o.words else ""
            lines.append(f"{start} {spelled}{after}{words} -d {_quoted(o.help)}")
    return "\n".join(lines)


def _names(commands: list[_Command]) -> str:
    return " ".join(c.name for c in commands)


def _quoted(text: str) -> str:
    """A word for a shell, in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
