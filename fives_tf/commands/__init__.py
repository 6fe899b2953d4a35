"""One verb a module: HELP, `add_flags(parser)` and `run(args)`.

The modules are imported for `fives --help`, so what is slow to import is imported within `run`.
"""
