"""Tables 4 and 5: correlation with people, row by row, on public human ratings (notebooks 04 and 05).

``domains``     the rated sets, and the SLM of each;
``opinions``    what judges said of them, recorded or live;
``methods``     every score of Table 4 as a row: reference-based, SLM, LLM, SLIDE, Non-, In-, Ex-DRE, DRE;
``table4``      published and measured side by side, with verdicts;
``signatures``  what each row was made of;
``claims``      paired tests, and what they say in words;
``readings``    how the result depends on what the papers leave open;
``inputs``      the frozen SLM scores that go into the prompts of interior refinement;
``people``      agreement of annotators;
``transfer``    Table 5;
``calibration`` every judge on every rated set, fused with a weight learned on the other sets;
``harm``        does a fusion hurt: paired tests, and in words;
``frontier``    correlation against cost: SLM, judge, fusion, cascade; ``frontier_cost`` what a judge takes;
``cost``        calls, tokens, money, seconds, memory.
"""
