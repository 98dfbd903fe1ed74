"""The shipped ISR protocol as a model to explore: one partition, its brokers and the controller.

`broker_steps` and `controller_steps` carry out one step of one of them, `isr_actions` says what may happen
next, and `isr_model` what comes of it.
"""

from tests.simulator.explorer.isr_model.isr_bounds import ISR_SUITES
from tests.simulator.explorer.isr_model.isr_model import IsrModel

__all__ = ["ISR_SUITES", "IsrModel"]
