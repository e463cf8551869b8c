// Package prometheus reads the use of pods from Prometheis that scrape the kubelets'
// cAdvisor, day by day of UTC, into files of one day each, and turns these into histories
// (internal/usage) of workloads, and into the series of the days that judge a placement.
//
// A query covers so few steps that its answer has about half a million samples; a server that
// refuses it for its limits gets it again in halves. A day that was read is kept in a file
// and not read again, so a run that is killed resumes, and the next run reads new days alone.
//
// The package does not depend on Kubernetes: its caller names the workload of a pod, from the
// owners that kube-state-metrics had on that day or from anything else.
package prometheus
