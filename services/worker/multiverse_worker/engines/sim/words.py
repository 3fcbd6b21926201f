"""Words that simulated answers are made of."""

_TEXT = """
the a of and to in is that it for as with we can at this by each from or one two three first then
so let now take sum path step part side case length number value result total count half point
line left right over under between before after since because hence thus given find show note
check add split join hold keep move turn same other more less equal small large next last both
"""
WORDS = tuple(_TEXT.split())
