// Package month simulates a cluster under the stacks that people run: schedulers, provisioners, autoscalers and movers
// of pods together, each with its project's defaults. The laboratory and sigma savings read it.
package month
