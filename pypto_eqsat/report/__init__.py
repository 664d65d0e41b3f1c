"""The report of a run: one page of HTML that needs no network and no scripts, the same bytes for the same run.

`page.py` gathers what is shown and fills `page.html`; `sides.py` sets before and after side by side, `memory_map.py` and `egraph_map.py`
draw, `bars.py` compares cycles by pipe.
"""
