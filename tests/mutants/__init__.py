"""Mutants of rules, checks and prices: each is one small wrong change, and some test must fail on it.

    python -m tests.mutants                          all of them, with a table and the survivors
    python -m tests.mutants --only extract/moves.py  those whose name holds this text
    python -m tests.mutants --list                   their names

Mutants are made from the files as they are: a new rule, check or number has its mutants without being named.
"""
