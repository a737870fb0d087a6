"""A real Kubernetes control plane on loopback, with a stand-in for the kubelet. Started by scripts/kubernetes, and by tests.

`programs` compiles the API server, the controllers and the scheduler. `control_plane` runs them with etcd. `kubelet` plays a node:
`containers` are processes in namespaces of their own, and `streams` serves their logs and `exec`. `recording` keeps what a client
asked and what the server answered.
"""
