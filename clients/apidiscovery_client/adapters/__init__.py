"""Discovery of this package for other Kubernetes packages.

One module for each package, named like it: `kubernetes`, `kubernetes_asyncio`, `kr8s` and
`lightkube`. Only the module that is imported imports its package.
"""
