// Package oracle compares the four policies that carry the names of
// kube-scheduler's scoring strategies with kube-scheduler's own plugins. It is
// in the laboratory, so that the core does not depend on k8s.io/kubernetes for a test.
package oracle
