"""Where work goes: which worker a request starts on, and which of its paths run, where, when.

Pure decisions over what is known of the workers. Knows no network, no clock, no tokens; the
router and the simulator of the benches call the same code.
"""
