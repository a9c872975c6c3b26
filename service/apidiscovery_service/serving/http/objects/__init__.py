"""StorageVersions and leases as a Kubernetes API: get, list, watch, create, update, patch, delete.

This follows kube-apiserver's handlers (k8s.io/apiserver pkg/endpoints), over the state of this
service.
"""
