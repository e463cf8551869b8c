// Sigma-lab is the laboratory's command line: the commands of sigma, and those that make the
// published results.
//
//	sigma-lab records placement [SECTION…]     figures about placement policies; without names all
//	sigma-lab records autoscaler [SIDE…]       autoscalers on simulated workloads
//	sigma-lab records aware                    the claims of AWARE, measured
//	sigma-lab records safety                   the agent learned on hostile workloads, and others
//	sigma-lab records concurrency              days with a learned capacity, next to hpa-70 and Knative's
//	sigma-lab records validate                 the simulator next to theory and a real server
//	sigma-lab records summary                  docs/results.md from the pages, nothing is measured
//	sigma-lab contest                          learners of the concurrency limit on drawn pods
//	sigma-lab convert FORMAT PATH…             public data sets as traces
//	sigma-lab reassign                         machine reassignment, the ROADEF challenge
//	sigma-lab dump                             a messy cluster as kubectl writes it, for tests and the demo
//
// Records run in the root of the repository. Public sets are read from SIGMA_DATA; without it the
// pages name the sets left out. A section replaces its page when it has ended, so a failed or
// interrupted run keeps the old one. Exit codes: 0 done, 1 failed, 2 wrong use, 130
// interrupted.
package main

import (
	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/cli"
	_ "github.com/sigma-scheduler/sigma/lab/instances"  // kinds of generate
	_ "github.com/sigma-scheduler/sigma/lab/policies"   // files of the model population
	_ "github.com/sigma-scheduler/sigma/lab/population" // a model of policy files
	_ "github.com/sigma-scheduler/sigma/lab/rollout"    // another
)

// version is set by the linker: -ldflags '-X main.version=…'.
var version string

func main() { cli.Main(laboratory()) }

func laboratory() cli.Program {
	return cli.Program{Name: "sigma-lab", Version: version, Converter: converter, Commands: func(shell cli.Shell) []*cobra.Command {
		return []*cobra.Command{recordsCommand(shell), contestCommand(shell), reassignCommand(shell), dumpCommand(shell)}
	}}
}
