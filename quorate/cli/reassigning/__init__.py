"""The moves of replicas as the command line plans, begins and watches them."""
