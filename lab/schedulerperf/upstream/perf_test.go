// Package upstream runs Kubernetes' own scheduler benchmark, scheduler_perf, on
// the profiles of ../config. The API server shares its process, so only its
// latencies and its throughput mean something, not its CPU time.
package upstream

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"github.com/sigma-scheduler/sigma/lab/schedulerperf/policy"
	_ "github.com/sigma-scheduler/sigma/plugins/apis/config/scheme" // SigmaArgs
	"github.com/sigma-scheduler/sigma/plugins/sigma"
)

// plugins are those that upstream does not have. The policy must be there before
// the plugin looks for it, which is before scheduler_perf lets us do anything.
var plugins = fwkruntime.Registry{
	sigma.Name: func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if err := policy.Install(ctx, handle.KubeConfig(), "../../.."); err != nil {
			return nil, err
		}
		return sigma.New(ctx, args, handle)
	},
}

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func BenchmarkPerfScheduling(b *testing.B) {
	perf.RunBenchmarkPerfScheduling(b, "performance-config.yaml", "sigma", plugins)
}
