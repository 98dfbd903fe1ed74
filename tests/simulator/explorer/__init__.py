"""Exhaustive model checking of shipped code: every interleaving of what can happen, within stated bounds.

One search for two models. `model` says what a model is, `search` visits every state of it once, breadth
first, `counterexample` describes the shortest path to a violation, and `exploration` runs the suites of both:
`core_model` is the quorum's core, `isr_model` is the replication of one partition.
"""
