// Package next pins the control plane of the newest Kubernetes that Sigma is tested
// with; CONTROLPLANE_LINE=next builds it. See ../README.md.
package next
