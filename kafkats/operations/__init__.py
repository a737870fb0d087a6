"""One module or package per verb.

`plan_x` is a pure function; `stage_partition` builds the new files.
"""
