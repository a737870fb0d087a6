"""Operations put together: what is looked at, decided, written and proved, over any executor.

The command line and the Spark jobs call these functions with their executor, and show what they
return. Functions return rows in the order of their units, so the result does not depend on where
the units were worked on.
"""
