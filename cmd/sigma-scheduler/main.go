// Command sigma-scheduler is kube-scheduler with the plugin Sigma.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // JSON logs
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // args of its plugins
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesources"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"

	_ "github.com/sigma-scheduler/sigma/plugins/apis/config/scheme" // SigmaArgs
	"github.com/sigma-scheduler/sigma/plugins/sigma"
)

func main() { os.Exit(cli.Run(app.NewSchedulerCommand(plugins()...))) }

// plugins are those that a profile may name in addition to upstream's.
func plugins() []app.Option {
	return []app.Option{
		app.WithPlugin(sigma.Name, sigma.New),
		app.WithPlugin(coscheduling.Name, coscheduling.New),
		app.WithPlugin(noderesources.AllocatableName, noderesources.NewAllocatable),
		app.WithPlugin(targetloadpacking.Name, targetloadpacking.New),
		app.WithPlugin(loadvariationriskbalancing.Name, loadvariationriskbalancing.New),
		app.WithPlugin(lowriskovercommitment.Name, lowriskovercommitment.New),
	}
}
