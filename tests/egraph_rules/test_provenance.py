"""Rules that note what they make: the e-graph stays the same, and what they note is true."""

from __future__ import annotations

import pytest
from helpers import SHARED, kernel

from egraph_rules.catalogue import rule
from egraph_rules.engine import RULE_FILES, rule_text
from egraph_rules.graph import MACHINE, Graph, saturated
from egraph_rules.provenance import noting, terms, written
from pypto_ir.formats import read_any
from pypto_ir.stmt import Function

KERNELS = tuple(sorted(file.stem for file in (SHARED / "kernels").glob("*.json")))
DUMPS = tuple(f.stem for f in sorted((SHARED / "dumps").glob("*.py")) if "flattened" not in f.stem)


def functions(name: str) -> list[Function]:
    from extract.legal import refusals

    program = kernel(name) if name in KERNELS else read_any((SHARED / "dumps" / f"{name}.py").read_text(), name)
    return [f for f in program.functions if f.in_core and f.verbatim is None and not refusals(f)]


def same(a: Graph, b: Graph) -> bool:
    carriers = [(g.classes, g.values, g.flat, g.families, g.columns, g.writes, g.obstacles) for g in (a, b)]
    return carriers[0] == carriers[1] and list(a.classes) == list(b.classes)


@pytest.mark.parametrize("name", [*KERNELS, *DUMPS])
def test_noting_changes_no_class_and_every_node_has_a_rule_that_made_it(name: str) -> None:
    for f in functions(name):
        plain, noted = saturated(f), saturated(f, noting=True)
        assert same(plain, noted)
        assert plain.makers == {}
        nodes = {(c, node) for c, members in noted.classes.items() for node in members}
        assert nodes == set(noted.makers), "the encoder makes no machine node, rules make all of them"
        assert all(rule(made) is not None for names in noted.makers.values() for made in names)


@pytest.mark.parametrize("name", ["batch_acc_k_loop", "assemble_pages", "rmsnorm_4d"])
def test_nodes_that_one_rule_made_are_gone_without_it(name: str) -> None:
    for f in functions(name):
        noted = saturated(f, noting=True)
        for part in sorted({names[0] for names in noted.makers.values() if len(names) == 1}):
            mine = [node.name for (_, node), names in noted.makers.items() if names == (part,)]
            left = saturated(f, without=frozenset({part}))
            for constructor in set(mine):
                before, after = (sum(n.name == constructor for ns in g.classes.values() for n in ns) for g in (noted, left))
                assert after <= before - mine.count(constructor), (part, constructor)


def test_every_rule_that_builds_a_machine_node_notes_it() -> None:
    texts = noting({name: rule_text(name) for name in RULE_FILES}, MACHINE)
    assert set(texts) == set(RULE_FILES)
    assert texts["language"].count("(relation maker-") == len(MACHINE)
    line = next(line for line in texts["pages"].splitlines() if '"pages.rows"' in line)
    assert '(maker-RowsOf "pages.rows" (Flat x) p)' in line
    assert line.index("(union f (RowsOf (Flat x) p))") < line.index("(maker-RowsOf")


def test_terms_are_read_and_written() -> None:
    assert terms('(a (b "x (y) ; z") ; comment )\n c) d') == [["a", ["b", '"x (y) ; z"'], "c"], "d"]
    assert written(["a", ["b", "c"], []]) == "(a (b c) ())"
    with pytest.raises(ValueError, match="open"):
        terms("(a (b)")
