package collect

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// metricsAPI queries metrics.k8s.io for the usage of a workload's pods.
func (c *Collector) metricsAPI(ctx context.Context, w *target.Workload) (usages, *Problem) {
	list, err := c.Metrics.PodMetricses(w.Object.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: w.Selector.String()})
	switch {
	case apierrors.IsNotFound(err):
		return nil, &Problem{Usage, "MetricsAPIMissing", "the cluster has no metrics API (metrics.k8s.io); is metrics-server installed?"}
	case errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err):
		return nil, &Problem{Usage, "MetricsAPITimeout", fmt.Sprintf("the metrics API did not answer within %v", c.Timeout)}
	case apierrors.IsForbidden(err):
		return nil, &Problem{Usage, "MetricsAPIForbidden", err.Error()}
	case err != nil:
		return nil, &Problem{Usage, "MetricsAPIFailed", "the metrics API: " + err.Error()}
	}
	used := usages{}
	for i := range list.Items {
		m := &list.Items[i]
		of := map[string]mpa.Usage{}
		for _, k := range m.Containers {
			cpu, hasCPU := k.Usage[corev1.ResourceCPU]
			memory, hasMemory := k.Usage[corev1.ResourceMemory]
			if !hasCPU || !hasMemory {
				continue
			}
			if cpu.Sign() < 0 || memory.Sign() < 0 {
				return nil, &Problem{Usage, "Negative", fmt.Sprintf("the metrics API says that container %s of pod %s uses %s cpu, %s memory", k.Name, m.Name, &cpu, &memory)}
			}
			of[k.Name] = mpa.Usage{Resources: resources(cpu, memory), Time: m.Timestamp.UTC(), Window: m.Window.Duration}
		}
		used[m.Name] = of
	}
	return used, nil
}
