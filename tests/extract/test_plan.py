"""Plans: what is due before which statement, which instance serves whom, and greedy choices as candidates."""

from __future__ import annotations

from dataclasses import replace

from alternatives import TARGET
from building import Build

from extract.decide import decide
from extract.effort import ChoiceLimits
from extract.emit import emit
from extract.exact import realized
from extract.plan import Plan, greedy, greedy_choices, plan
from extract.price import price
from extract.question import Question
from pypto_ir.expr import Binary, index
from pypto_ir.stmt import Assign, For, Function, walk
from tests.extract.brute_force import BruteForce, asked

SHAPE = (16, 64)


def question_of(function: Function) -> Question:
    question = asked(function)
    assert question is not None
    return question


def hoistable() -> Function:
    """An op that costs less in front of the loop than in every trip."""
    b = Build()
    x, y = b.load("x", SHAPE), b.load("y", SHAPE)
    with b.loop("i", 8, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, b.let("e", "tile.exp", y)))
    b.out(b.ended[0])
    return b.function()


def decided(question: Question) -> tuple[list[int], Plan]:
    chosen = decide(question.problem, question.choices, question.bound, ChoiceLimits()).chosen
    return chosen, plan(question.problem, chosen)


def flat(question: Question, name: str) -> int:
    graph = question.problem.graph
    return graph.flat[graph.encoded.numbers[name]]


def loop_of(question: Question) -> tuple[int, int]:
    """The number of the only loop's body, and the position of the loop."""
    ((number, region),) = ((r, region) for r, region in enumerate(question.problem.regions.items) if region.loop)
    return number, region.owner


def test_greedy_choices_also_compute_in_front_of_a_loop_what_its_trips_share() -> None:
    question = question_of(hoistable())
    body, _ = loop_of(question)
    e = flat(question, "e")
    regions = []
    for chosen in greedy_choices(question.problem, question.choices):
        assert BruteForce(question.problem).valid(frozenset(chosen))
        regions += [question.problem.candidates[i].region for i in chosen if question.problem.candidates[i].c == e]
    assert sorted(set(regions)) == [0, body]
    best = min(question.problem.cost(chosen) for chosen in greedy_choices(question.problem, question.choices))
    assert best < min(question.problem.cost(greedy(question.problem, choice)) for choice in question.choices)


def test_what_a_loop_reads_first_is_due_in_front_of_it() -> None:
    question = question_of(hoistable())
    _, made = decided(question)
    body, owner = loop_of(question)
    e, total = flat(question, "e"), flat(question, "sum")
    assert (e, 0) in made.options and (e, body) not in made.options
    assert made.places[(e, 0)] == owner and e in made.due[owner]
    assert made.reads[((total, body), e)] == 0
    assert made.reads[((e, 0), flat(question, "y"))] == 0


def test_what_the_region_itself_reads_first_is_not_due() -> None:
    question = question_of(hoistable())
    _, made = decided(question)
    y = flat(question, "y")
    assert all(y not in due for due in made.due.values()), "its first reader stands in its own region"


def test_author_choice_is_not_due_and_reads_its_own_region() -> None:
    question = question_of(hoistable())
    chosen = greedy(question.problem, question.choices[-1])
    made = plan(question.problem, chosen)
    body, _ = loop_of(question)
    e, total = flat(question, "e"), flat(question, "sum")
    assert made.reads[((total, body), e)] == body and all(e not in due for due in made.due.values())
    assert all(question.problem.candidates[i].own for i in chosen)


def test_the_skeleton_is_served_where_it_asks() -> None:
    question = question_of(hoistable())
    _, made = decided(question)
    body, owner = loop_of(question)
    problem = question.problem
    for d in problem.roots:
        if d.c >= 0:
            assert made.serves[(d.c, d.region, d.position)] == d.region == made.serving(d.c, d.region, d.position)
    assert made.forms == {}, "a tile of rank 2 has one form"
    x, total = flat(question, "x"), flat(question, "sum")
    assert made.serves[(x, 0, owner)] == 0
    tail = next(p for c, r, p in made.serves if (c, r) == (total, body))
    assert made.serving(total, body, tail) == body
    # nothing was planned for this demand: the nearest instance around serves
    assert made.serving(flat(question, "e"), body, 10_000) == 0


def test_the_innermost_of_two_instances_serves() -> None:
    question = question_of(hoistable())
    problem = question.problem
    body, _ = loop_of(question)
    e, total = flat(question, "e"), flat(question, "sum")
    chosen = list(dict.fromkeys([*decided(question)[0], *greedy(problem, question.choices[-1])]))
    assert {problem.candidates[i].region for i in chosen if problem.candidates[i].c == e} == {0, body}
    made = plan(problem, chosen)
    assert made.reads[((total, body), e)] == body


def paged() -> Function:
    """A tile that is made by pages and used flat: its pages could be cut from the flat form that is packed from them."""
    b = Build()
    y = b.let("y", "tile.add", b.load("x", (2, 4, 8)), b.load("w", (1, 4, 8)))
    b.out(b.let("z", "tile.reshape", y, (2, 2, 16)))
    return b.function()


def test_readers_stand_behind_what_they_read() -> None:
    for function in (hoistable(), paged()):
        question = question_of(function)
        chosen, made = decided(question)
        ranks = {(k.c, k.region): n for n, i in enumerate(realized(question.problem, chosen)) for k in (question.problem.candidates[i],)}
        assert len(ranks) == len(chosen) and made.reads
        for (reader, c), region in made.reads.items():
            assert ranks[(c, region)] < ranks[reader]
            assert made.places[(c, region)] <= question.problem.regions.lifted(reader[1], made.places[reader], region)


def test_options_of_the_plan_are_the_chosen_ones() -> None:
    question = question_of(paged())
    chosen, made = decided(question)
    for i in chosen:
        k = question.problem.candidates[i]
        assert made.options[(k.c, k.region)] is question.problem.choice.options[k.c][k.option]
        assert made.places[(k.c, k.region)] == k.position
    assert len(made.options) == len(chosen)


def carried() -> Function:
    """A value with pages and a flat form, handed on by a loop."""
    b = Build()
    x = b.load("x", (2, 4, 8))
    with b.loop("i", 3, {"acc": x}) as (_, acc):
        b.yields(b.let("sum", "tile.add", acc, x))
    b.out(b.ended[0])
    return b.function()


def test_greedy_carries_what_its_choice_carries() -> None:
    question = question_of(carried())
    brute = BruteForce(question.problem)
    seen = set()
    for choice in question.choices:
        chosen = greedy(question.problem, choice)
        assert brute.valid(frozenset(chosen))
        assert plan(question.problem, chosen).forms == choice.forms
        seen.add(choice.forms[0])
    assert seen >= {("flat",), ("pages",)}


def test_program_of_a_plan_holds_a_value_once_in_front_of_the_loop() -> None:
    question = question_of(hoistable())
    chosen, made = decided(question)
    function = emit(question.problem.graph, question.problem.choice, made)
    (loop,) = (s for s in function.body if isinstance(s, For))
    assert [s.target.name for s in loop.body if isinstance(s, Assign)] == ["sum"]
    in_front = [s.target.name for s in function.body[: function.body.index(loop)] if isinstance(s, Assign)]
    assert in_front[-1] == "e" and len(in_front) == len(set(in_front)) == 3
    assert price(function, TARGET).cost == question.problem.cost(chosen)


def test_each_arm_reads_the_instance_that_is_due_before_the_branch() -> None:
    b = Build()
    x, n = b.load("x", SHAPE), b.scalar("n", 0, 3)
    v = b.let("v", "tile.exp", x)

    def arm(name: str) -> None:
        b.yields(b.let(name, "tile.add", v, v))

    (p,) = b.branch(Binary("lt", n, index(2)), lambda: arm("s"), lambda: arm("t"), {"p": x.type})
    b.out(p)
    question = question_of(b.function())
    _, made = decided(question)
    c, owner = flat(question, "v"), question.problem.regions.items[1].owner
    # both arms compute the same class, each for itself
    readers = {reader for reader, read in made.reads if read == c}
    assert {region for _, region in readers} == {1, 2} and all(made.reads[(reader, c)] == 0 for reader in readers)
    assert made.due[owner] == [c] and made.places[(c, 0)] < owner


def test_plan_of_no_choice_is_empty() -> None:
    question = question_of(carried())
    nothing = plan(replace(question.problem, roots=[]), [])
    assert (nothing.options, nothing.places, nothing.reads, nothing.serves, nothing.due) == ({}, {}, {}, {}, {})
    assert nothing.forms == {0: ()}


def test_program_of_a_plan_defines_every_name_once() -> None:
    for function in (hoistable(), paged(), carried()):
        question = question_of(function)
        _, made = decided(question)
        names = [s.target.name for s in walk(emit(question.problem.graph, question.problem.choice, made).body) if isinstance(s, Assign)]
        assert len(names) == len(set(names))
