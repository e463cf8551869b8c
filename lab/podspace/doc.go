// Package podspace makes the environment of a pod's containers without a kubelet: a network namespace with loopback
// alone, and cgroups with their limits. It starts programs there, among them Knative's queue-proxy, whose ports are the
// same in every pod. It needs Linux and root.
package podspace
