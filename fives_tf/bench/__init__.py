"""`fives bench`: the tables and figures of the paper, by one command."""
