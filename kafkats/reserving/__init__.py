"""Reservations for all log dirs of a plan or a run, for the command line and the Spark jobs.

    with planning(log_dirs, wish) as ours:      reserves, if there is a wish
        ... look at ours.log_dirs ...
        ours.keep_changed(plan, folder)         keeps the log dirs that the plan changes
                                                the others are released at the end
    with changing(run, folder) as held:         reserves during the writes, then releases

The folders of a reserved plan and of a run hold `reservation.json`, which no digest covers: holder,
end, and the token of each log dir. `apply` and `undo` recognize their own reservation by it.
A reservation lasts a day unless its end is given. A run that writes renews its own; a killed run
keeps it this long.
"""
