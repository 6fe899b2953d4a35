"""One verb a module: HELP, `add_flags(parser)` and `run(args)`.

A module may also have TAKES_REST, if it hands unknown flags on as `args.rest`, and INTERRUPTED,
what to tell a user who stopped it. The modules are imported for `fives --help`, so what is slow to
import is imported within `run`.
"""
