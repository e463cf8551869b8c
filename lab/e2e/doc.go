// Package e2e runs schedulers against a real control plane: etcd, kube-apiserver and kube-controller-manager
// from lab/controlplane as child processes, a fake kubelet in this process, and the scheduler under test as a
// child that can be killed, stopped and restarted. It is independent of placement: a test creates objects and
// checks the result.
//
// For the autoscaler there are a real Prometheus from lab/prometheus, and
// workloads whose requests are simulated on the pods that run: their figures
// reach Prometheus and the metrics API, and a test can stop, age and falsify them
// on either way.
//
// For Knative there are its controller, autoscaler, webhook and activators from hack/knative. The pods of its Services
// are processes, a function in its cgroup behind the real queue-proxy, and a client sends them requests by the
// Ingress.
//
// Size: one harness for all tests of real programs, whose parts need each other's cluster and processes.
//
// Everything but this file needs the build tag e2e; `make e2e` builds all that is needed and runs it. A
// package that uses it calls [Main] from its TestMain.
package e2e
