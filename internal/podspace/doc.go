// Package podspace makes what the containers of a pod share, where there is no kubelet: a network namespace with loopback
// alone. It starts programs there, among them Knative's queue-proxy, whose ports are the same in every pod. It needs Linux and root.
package podspace
