"""`apidiscovery demo`: a fleet that changes, on this machine, for a first look.

Real servers in processes of their own: one for each cluster, and one that aggregates them.
"""
