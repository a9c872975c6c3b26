"""StorageVersions and leases as a Kubernetes API: get, list, watch, create, update, patch, delete.

What kube-apiserver's handlers do (k8s.io/apiserver pkg/endpoints), over the state of this service.
"""
