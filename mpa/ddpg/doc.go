// Package ddpg is the agent of AWARE (Qiu et al., USENIX ATC 2023), to compare with and
// not to run: a network from ten numbers of a workload to its size and its replicas,
// trained by DDPG. Every 30 s a [Network] acts; [Student] learns while it acts, or while
// rules act that it imitates. [NewBand] bounds its actions to a band around the rules.
package ddpg
