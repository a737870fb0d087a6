"""One file per verb. `plan_x` is pure and tested by tables; `apply_x` builds the new files and hands them to changeset."""
