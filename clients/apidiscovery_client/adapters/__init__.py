"""Lets other Kubernetes packages know what a server serves by this one's discovery.

One module for each package, named like it: `kubernetes`, `kubernetes_asyncio`, `kr8s` and
`lightkube`. Only the module that is imported imports its package.
"""
