"""From choices to functions that the target can hold.

A choice is emitted and repaired, and its tiles get addresses. Where neither the cheapest choice nor a greedy one fits, the solver gives
the next cheapest, and the next, until one fits: `x = load [8, 96, 128]`, `store(exp(x))` needs 384 KiB of Vec as flat tiles, and 96 KiB
page by page.
"""

from __future__ import annotations

import time

from extract.allocate import Allocation, allocate, capacity_faults
from extract.cleanup import without_dead_tiles
from extract.emit import NotAvailable, emit
from extract.exact import Model
from extract.gaps import packed
from extract.plan import plan
from extract.price import Price, price
from extract.problem import Problem
from extract.repair import linear
from extract.target import Target
from pypto_ir.diagnostics import Diagnostic, Place, Refused, declare
from pypto_ir.stmt import Function

declare(X002="a chosen value cannot be emitted where it is needed", L106="no choice was found in time")

#: choices that are tried for one that fits
TRIES = 200


def first_that_fits(priced: list[tuple[Function, Price]], target: Target) -> tuple[Function, Price, Allocation]:
    """The first function whose tiles the target can hold. Raises `Refused` with what is too large in the very
    first one where no function fits."""
    faults: list[Diagnostic] = []
    for function, its_price in priced:
        allocation = allocate(function, target)
        if allocation.fits:
            return function, its_price, allocation
        faults = faults or capacity_faults(function, allocation)
    raise Refused(faults)


def all_emitted(question: Problem, attempts: list[list[int]]) -> list[Function]:
    """The functions of the choices, each once, that no read of an overwritten tile rules out. Raises `Refused` where all are ruled
    out."""
    found: list[Function] = []
    reasons: list[Refused] = []
    tried: set[tuple[int, ...]] = set()
    for chosen in attempts:
        key = tuple(sorted(chosen))
        if (question.roots and not chosen) or key in tried:
            continue
        tried.add(key)
        try:
            found.append(emitted_choice(question, chosen))
        except Refused as refused:
            if any(d.code not in ("V202", "V203") for d in refused.diagnostics):
                raise
            reasons.append(refused)
    if reasons and not found:
        raise reasons[-1]
    if not found:
        place = Place(function=question.graph.encoded.function.name)
        raise Refused([Diagnostic("L106", "no choice was found in the time that the solver had", place, "give it more time")])
    return found


def emitted_choice(question: Problem, chosen: list[int]) -> Function:
    """The function of a choice, without dead tiles and with the copies that it needs."""
    function = question.graph.encoded.function
    try:
        emitted = without_dead_tiles(emit(question.graph, question.choice, plan(question, chosen)))
    except NotAvailable as error:
        raise Refused([internal("X002", function, str(error))]) from error
    for repair in (packed, linear):
        emitted, problems = repair(emitted)
        if problems:
            raise Refused(problems)
    return emitted


def any_that_fits(
    question: Problem, target: Target, default_trips: int, seconds: float, refused: Refused
) -> tuple[Function, Price, Allocation]:
    """The cheapest choice whose tiles the target can hold, cheapest first. Raises `refused` where there is none, or none was found in
    time."""
    model, deadline = Model(question), time.monotonic() + seconds
    for _ in range(TRIES):
        solution = model.solve(deadline - time.monotonic())
        if solution is None:
            break
        try:
            function = emitted_choice(question, list(solution.chosen))
        except Refused:
            model.forbid(solution.chosen)
            continue
        allocation = allocate(function, target)
        if allocation.fits:
            return function, price(function, target, default_trips), allocation
        model.forbid(solution.chosen)
    raise refused


def internal(code: str, function: Function, message: str) -> Diagnostic:
    """The diagnostic of a fault of the optimiser itself."""
    return Diagnostic(
        code, message.strip(), Place(function=function.name), "this is a fault of the optimiser: please report it with the program"
    )
