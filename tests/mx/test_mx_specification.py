"""Every row of the specification of MX scale views (`spec/mx.md`) has a test: the table says which, and that it is there.

Sections 7 (accept and reject), 9 (upstream's tests, and those to write beside them), 10 (what facts prove, with near misses), 11 (hazards).
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
#: row -> (file, the test in it), and for a table of forms the form as well
ROWS: dict[str, tuple[str, str]] = {
    # 7: accept and reject
    "R1 rank": ("mx/test_mx_rejections.py", "test_r1_scales_of_another_rank_than_2"),
    "R1 rank of a window": ("mx/test_mx_rejections.py", "test_r1_a_window_of_another_rank_than_2"),
    "R2, R3 dynamic": ("mx/test_mx_rejections.py", "test_r2_r3_dynamic_extents"),
    "R4, R5 extents": ("mx/test_mx_rejections.py", "test_r4_r5_extents_that_are_not_whole_boxes"),
    "R2 to R5 of windows": ("mx/test_mx_rejections.py", "test_r2_to_r5_hold_of_windows_as_of_tensors"),
    "R6 offsets": ("mx/test_mx_rejections.py", "test_r6_offsets_that_are_no_pair"),
    "R7 misaligned": ("mx/test_mx_rejections.py", "test_r7_a_misaligned_constant"),
    "R7 negative": ("mx/test_mx_rejections.py", "test_r7_a_negative_constant"),
    "R8 multiple": ("mx/test_mx_rejections.py", "test_r8_a_multiple_that_is_not_proved"),
    "R8 best fact": ("mx/test_mx_rejections.py", "test_r8_names_the_best_fact_of_what_broke_the_proof"),
    "R8 call site": ("mx/test_mx_offsets.py", "test_the_call_that_broke_a_proof_is_named"),
    "R9 sign": ("mx/test_mx_rejections.py", "test_r9_a_sign_that_is_not_proved"),
    "R10 partly valid": ("mx/test_mx_rejections.py", "test_r10_a_tensor_that_is_only_partly_valid"),
    "R11 distributed": ("mx/test_mx_rejections.py", "test_r11_a_distributed_tensor"),
    "R12 target": ("mx/test_mx_rejections.py", "test_r12_a_load_that_goes_elsewhere_than_to_mat"),
    "R13 other ops": ("mx/test_mx_rejections.py", "test_r13_an_op_that_has_no_form_for_scales"),
    "R14 stores": ("mx/test_mx_rejections.py", "test_r14_a_store_is_refused_unless_it_is_asked_for"),
    "R15 a caller": ("mx/test_mx_rejections.py", "test_r15_a_caller_that_gives_anything"),
    "R15 no caller": ("mx/test_mx_rejections.py", "test_r15_no_caller"),
    "R15 a call that does not fit": ("mx/test_upstream_prover.py", "test_a_call_that_does_not_fit_poisons_every_scalar_parameter"),
    "R15 recursion": ("mx/test_upstream_prover.py", "test_no_caller_and_recursion_are_refused"),
    "R15 budget": ("mx/test_upstream_prover.py", "test_the_budget_is_256_nodes_of_a_proof"),
    "A1, A2": ("mx/test_mx_catalogue.py", "test_1_shapes_and_load_windows_of_both_layouts"),
    "A3": ("mx/test_mx_catalogue.py", "test_8_an_offset_is_proved_through_outlined_scalar_parameters"),
    "A4": ("mx/test_mx_catalogue.py", "test_5_a_narrowed_load_reads_whole_boxes_and_keeps_its_valid_region"),
    "A5": ("mx/test_mx_catalogue.py", "test_11_views_between_bytes_and_scales_are_rewritten_both_ways"),
    "A6": ("mx/test_mx_catalogue.py", "test_12_results_of_a_launch_are_blocked_and_its_fields_survive"),
    "A7": ("mx/test_mx_catalogue.py", "test_10_a_second_run_gives_the_same_object"),
    # 9: upstream's catalogue, and what to test beside it
    "catalogue 2": ("mx/test_mx_catalogue.py", "test_2_scales_that_are_returned_are_stored_as_boxes_where_stores_are_asked_for"),
    "catalogue 3": ("mx/test_mx_catalogue.py", "test_3_quantised_operands_reach_the_scaled_product_as_tiles"),
    "catalogue 4": ("mx/test_mx_catalogue.py", "test_4_attributes_of_calls_name_the_blocked_arguments"),
    "catalogue 6": ("mx/test_mx_catalogue.py", "test_6_an_offset_that_nobody_gives_is_refused"),
    "catalogue 7": ("mx/test_mx_catalogue.py", "test_7_a_quotient_of_a_loop_variable_is_proved"),
    "catalogue 9": ("mx/test_mx_catalogue.py", "test_9_one_caller_that_is_not_aligned_refuses_the_offset"),
    "tuples": ("mx/test_mx_structure.py", "test_tuples_and_their_items"),
    "tuples that are returned": ("mx/test_mx_structure.py", "test_scales_in_a_tuple_that_a_function_returns"),
    "for and while": ("mx/test_mx_structure.py", "test_carried_scales_through_for_and_while"),
    "phi": ("mx/test_mx_structure.py", "test_scales_chosen_by_a_branch"),
    "a gap and contexts": ("egraph_rules/test_index_places.py", "test_a_launch_with_a_gap_before_its_contexts_gives_what_it_gives"),
    "zero extent": ("mx/test_mx_rejections.py", "test_r4_r5_extents_that_are_not_whole_boxes"),
    "strides": ("mx/test_mx_rejections.py", "test_b115_strides_that_are_not_packed"),
    "a narrower offset": ("mx/test_mx_offsets.py", "test_a_narrower_offset_is_cast_first"),
    "an unsigned offset": ("mx/test_mx_offsets.py", "test_an_unsigned_64_bit_offset_keeps_its_type_and_the_divisor_is_cast"),
    "offsets of every width": ("mx/test_mx_offsets.py", "test_offsets_of_every_width_are_rewritten_and_equal"),
    "random index programs": ("egraph_rules/test_index_random.py", "test_everything_that_facts_say_is_true"),
    "random programs": ("mx/test_random_mx.py", "test_random_programs_are_blocked_and_equal_on_packed_bytes"),
    # 10: what facts prove
    "10 forms": ("egraph_rules/test_index_facts.py", "test_facts_of_forms"),
    "10 loops": ("egraph_rules/test_index_facts.py", "test_facts_of_loop_variables"),
    "10 bounds from stop": ("egraph_rules/test_index_facts.py", "test_the_stop_of_a_loop_bounds_what_is_left"),
    "10 phi": ("egraph_rules/test_index_facts.py", "test_a_phi_is_either_arm"),
    "10 conditions": ("egraph_rules/test_index_facts.py", "test_conditions_say_something_of_names_in_their_arm"),
    "10 lanes and extents": ("egraph_rules/test_index_facts.py", "test_lanes_and_extents"),
    "10 blocks": ("egraph_rules/test_index_facts.py", "test_blocks_of_a_launch_are_counted_where_the_launch_says_so"),
    "10 carried": ("egraph_rules/test_index_facts.py", "test_carried_scalars_are_proved_by_induction"),
    "10 recursion": ("egraph_rules/test_index_facts.py", "test_recursion_is_proved_by_induction_with_the_calls_from_outside"),
    "10 contexts": ("egraph_rules/test_index_places.py", "test_a_sum_of_two_parameters_is_proved_call_by_call"),
    "10 in programs": ("mx/test_mx_offsets.py", "test_facts_prove_more_than_upstream"),
    "10 near misses in programs": ("mx/test_mx_offsets.py", "test_what_is_not_true_is_not_proved"),
    # 11: hazards
    "H1 division": ("egraph_rules/test_index_proofs.py", "test_splits_of_dividends"),
    "H2 width of a multiple": ("egraph_rules/test_index_facts.py", "test_a_product_of_three_survives_no_wrap_and_a_power_of_two_does"),
    "H2 width of a sign": ("egraph_rules/test_index_facts.py", "test_a_sign_needs_that_nothing_wraps_at_the_width"),
    "H3 unsigned": ("egraph_rules/test_index_facts.py", "test_unsigned_values_with_a_top_bit_are_no_index"),
    "H3 a difference": ("egraph_rules/test_index_facts.py", "test_an_unsigned_difference_wraps_to_huge_values"),
    "H4 re-association": ("mx/test_mx_offsets.py", "test_a_product_that_wraps_is_divided_after_it_wrapped"),
    "H4 quotients": ("egraph_rules/test_index_quotients.py", "test_a_product_that_may_wrap_is_divided_as_it_is"),
    "H5 no trips": ("egraph_rules/test_index_facts.py", "test_a_loop_that_may_not_run_hands_on_its_first_value"),
    "H6 past the end": (
        "mx/test_mx_rejections.py", "test_b116_boxes_past_the_end_are_seen_although_the_valid_region_ends_before",
    ),
    "H6 symbolic": ("mx/test_mx_rejections.py", "test_b116_a_symbolic_offset_that_is_surely_too_large"),
    "H7 no SSA": ("egraph_rules/test_index_facts.py", "test_bodies_that_are_not_in_ssa_form_are_not_believed"),
    "H8 entries": ("egraph_rules/test_index_facts.py", "test_entries_are_called_from_outside_too"),
    "H8 from outside": ("mx/test_mx_offsets.py", "test_offsets_of_boxes_are_never_taken_from_outside"),
    "H9 dead calls": ("egraph_rules/test_index_facts.py", "test_calls_that_never_run_count_for_nothing"),
    "H10 gaps": ("egraph_rules/test_index_facts.py", "test_a_launch_fills_a_gap_of_outputs_and_a_wrong_one_says_nothing"),
    "H11 views": ("mx/test_scale_boxes.py", "test_a_view_as_nd_counts_the_bytes_of_boxes"),
    "H11 a view of a view": ("mx/test_mx_structure.py", "test_a_view_of_a_view_counts_bytes_in_memory_order"),
    "H12 identity": ("mx/test_mx_structure.py", "test_a_program_of_stamped_functions_is_the_same_object"),
    "wrong boxes": ("mx/test_packed_bytes.py", "test_a_wrong_box_is_a_difference"),
}  # fmt: skip


@cache
def written(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("row", ROWS)
def test_the_row_has_its_test(row: str) -> None:
    file, name = ROWS[row]
    assert name in written(file)


def test_every_number_of_the_tables_is_there() -> None:
    """R1 to R15, A1 to A7, H1 to H12; rows of upstream's catalogue have their number in the name of a test."""
    text = " ".join(ROWS)
    for letter, last in (("R", 15), ("A", 7), ("H", 12)):
        for n in range(1, last + 1):
            inside = any(int(row[1:].split(",")[0].split()[0]) <= n <= _last(row) for row in ROWS if row[0] == letter and row[1].isdigit())
            assert inside, f"{letter}{n} of {text}"
    named = {int(name.split("_")[1]) for _, name in ROWS.values() if name.startswith("test_") and name.split("_")[1].isdigit()}
    assert named == set(range(1, 13))


def _last(row: str) -> int:
    words = row.replace(",", " ").replace(" to ", " ").split()
    return max(int(w[1:]) for w in words if w[0] == row[0] and w[1:].isdigit())
