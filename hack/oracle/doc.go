// Package oracle compares the four policies that carry the names of
// kube-scheduler's scoring strategies with kube-scheduler's own plugins. It is
// a module of its own, so that the product does not depend on k8s.io/kubernetes
// for a test.
package oracle
