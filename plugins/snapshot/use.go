package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Use is the present use of a pod, as metrics-server measured it.
type Use struct{ MilliCPU, MemoryBytes int64 }

// Missing is a kind of objects that a picture lacks, and the consequence.
type Missing struct {
	Kind string // as PodDisruptionBudget
	// Means is the consequence, as a clause without a full stop.
	Means string
}

func (m Missing) String() string { return m.Kind + ": none read: " + m.Means }

// optionalKinds are those without which there is an answer.
var optionalKinds = []Missing{
	{"Pod", "the cluster counts as empty"},
	{"Deployment", "a workload counts with the pods that it has now"},
	{"StatefulSet", "a workload counts with the pods that it has now"},
	{"ReplicaSet", "the workload of its pods is taken from their names and labels"},
	{"Job", "a job counts with the pods that it has now"},
	{"CronJob", "the next pods of scheduled jobs are not expected"},
	{"HorizontalPodAutoscaler", "bounds of autoscalers, if there are any, are not known"},
	{"PodDisruptionBudget", "a move may violate a disruption budget, if there are any"},
	{"PersistentVolumeClaim", "pods with volumes stay where they are"},
	{"PersistentVolume", "pods with volumes stay where they are"},
	{"CSINode", "pods with volumes that a driver attaches stay where they are"},
	{"PodMetrics", "the use of pods is not known"},
}

// lacks records that a kind cannot be read, if the client needs no such objects.
func (c *Client) lacks(p *Picture, kind string, err error) error {
	unserved := kind == "PodMetrics" && (apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err))
	if !c.Lenient || !unserved && !apierrors.IsForbidden(err) {
		return err
	}
	p.Missing = append(p.Missing, optionalKinds[slices.IndexFunc(optionalKinds, func(m Missing) bool { return m.Kind == kind })])
	return nil
}

// readMore reads the objects that only a report needs.
func (c *Client) readMore(ctx context.Context, p *Picture) (err error) {
	if p.Budgets, err = list(ctx, c, policyv1.SchemeGroupVersion, "poddisruptionbudgets", "",
		func(l *policyv1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget { return l.Items }); c.lacks(p, "PodDisruptionBudget", err) != nil {
		return err
	}
	if err := c.readVolumes(ctx, p); err != nil {
		return err
	}
	pods, err := list(ctx, c, metricsv1beta1.SchemeGroupVersion, "pods", "", func(l *metricsv1beta1.PodMetricsList) []metricsv1beta1.PodMetrics { return l.Items })
	if err != nil {
		return c.lacks(p, "PodMetrics", err)
	}
	p.addUse(pods)
	return nil
}

// useApart is the most time between the use of pods and the last sign of life of a node.
const useApart = time.Hour

// addUse adds the measurements of metrics-server, but those of another time.
func (p *Picture) addUse(pods []*metricsv1beta1.PodMetrics) {
	now, all, apart := newest(p.Nodes), len(pods), ""
	pods = slices.DeleteFunc(pods, func(m *metricsv1beta1.PodMetrics) bool {
		if now.IsZero() || m.Timestamp.IsZero() || now.Sub(m.Timestamp.Time).Abs() <= useApart {
			return false
		}
		apart = cmp.Or(apart, m.Timestamp.UTC().Format(time.RFC3339))
		return true
	})
	if apart != "" {
		p.Notes = append(p.Notes, fmt.Sprintf("the use of %s is left out: it was measured at %s, and the last sign of life of a node is of %s", plural.Of(all-len(pods), "pod"), apart, now.UTC().Format(time.RFC3339)))
		if len(pods) == 0 {
			p.Missing = append(p.Missing, Missing{"PodMetrics of this time", "the use of pods is not known"})
		}
	}
	if len(pods) > 0 {
		p.Use = make(map[string]Use, len(pods))
	}
	for _, m := range pods {
		var sum Use
		for i := range m.Containers {
			u := useOf(m.Containers[i].Usage)
			sum.MilliCPU, sum.MemoryBytes = sum.MilliCPU+u.MilliCPU, sum.MemoryBytes+u.MemoryBytes
		}
		p.Use[fmt.Sprintf("%s/%s", m.Namespace, m.Name)] = sum
	}
}

func useOf(list v1.ResourceList) Use {
	return Use{podspec.Amount("cpu", list.Cpu()), podspec.Amount("memory", list.Memory())}
}
