"""Trainers: strategies of parallel training as plans, and the torch halves that execute exactly those.

To read first, in this order::

    config.py, mesh.py     what is trained, on how many ranks, who sits where
    model.py               the one tiny transformer; ``Ways`` are the places where parallelism acts
    step.py, reference.py  one step, and what every strategy must equal
    strategies/dp.py       the first strategy: a diagram and shapes in its docstring; others likewise
    plans/dp.py            what it sends, without torch; the step's ledger must equal it
    axis.py, ledger.py     every collective goes through the one, and is in the other
    breakdown.py           where a step's time went
    plans/step_time.py     what it should take; price.py asks the cost room, roofline.py measures a device
"""
