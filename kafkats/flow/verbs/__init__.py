"""The verbs of requests: `perform(work)` in the module of a verb's name does it.

`kafkats.flow.run` imports the module of the verb that is asked for, and no other.
"""
