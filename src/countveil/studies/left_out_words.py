"""Words that say nothing about what a document is about: a fixed and public list."""

from __future__ import annotations

# English words of three letters or more that carry grammar and little else.
_ENGLISH = """
    about above after again against all also although and another any are because been before being
    below between both but can cannot could did does doesn doing don done down during each either else
    etc even every few for from further get gets had has have having her here hers him his how however
    into isn its itself just let may might more most much must neither nor not now off once one only
    onto other others otherwise our ours out over own per rather same shall she should since some such
    than that the their theirs them then there thereby therefore these they this those though through
    thus too two under unless until upon use used uses using very via was wasn well were what whatever
    when where whereas whether which while who whom whose why will with within without won would yet you
    your yours
"""

# What the form of a docstring brings along: headings, types, markup, the first line of every example.
_DOCSTRING = """
    attributes bool default doi example examples false float func http https import int math meth none
    note notes optional org parameter parameters raises ref references return returned returns see str
    true tuple www yields
"""

LEFT_OUT_WORDS = frozenset((_ENGLISH + _DOCSTRING).split())
