"""`fives completion`: prints a script by which a shell completes this command."""

import argparse

HELP = "print a script by which bash or zsh completes verbs, flags and their values"

SHELLS = ("bash", "zsh")
# What values are paths is told by the names that `--help` gives them.
_DIRECTORIES = ("DATASET", "DIR", "EXPORT", "RUN")
_FILES = ("CROSSES", "FILE", "LOG", "OUT", "PATH", "RUN|FILE", "SCHEMA")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
bash, where the package bash-completion is installed:
  mkdir -p ~/.local/share/bash-completion/completions
  fives completion bash > ~/.local/share/bash-completion/completions/fives
bash without it, in ~/.bashrc:
  source <(fives completion bash)
zsh:
  mkdir -p ~/.zfunc
  fives completion zsh > ~/.zfunc/_fives
and in ~/.zshrc, before compinit:
  fpath=(~/.zfunc $fpath)

New shells have it. Write the script anew when fives-tf is updated."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> None:
    """Prints the script."""
    import shtab

    from fives_tf.cli import make_parser

    parser = make_parser()
    _mark_paths(parser)
    print(shtab.complete(parser, args.shell))


def _mark_paths(parser: argparse.ArgumentParser) -> None:
    """Tells shtab which values are files and directories, of all verbs and their actions."""
    import shtab

    for action in parser._actions:
        if isinstance(action.choices, dict):
            for verb in action.choices.values():
                _mark_paths(verb)
        elif action.metavar in _DIRECTORIES:
            action.complete = shtab.DIRECTORY
        elif action.metavar in _FILES:
            action.complete = shtab.FILE
