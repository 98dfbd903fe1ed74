"""Exhaustive model checking of the shipped ISR protocol: one partition, its brokers and the controller, and
every interleaving of what can happen within stated bounds.

`broker_steps` and `controller_steps` carry out one step of one of them, `isr_actions` says what may happen
next and `isr_world` what comes of it, `isr_search` visits every state once, breadth first, and
`isr_counterexample` shows the shortest way to a violation.
"""
