"""The shipped ISR protocol as a model to explore: one partition, its brokers and the controller.

`broker_steps` and `controller_steps` carry out one step of one of them, `isr_actions` says what may happen
next, and `isr_model` what comes of it.
"""
