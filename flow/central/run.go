package central

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

// stepped is how often objects are looked at.
const stepped = time.Second

// A Runner runs a Central on the objects of a cluster.
type Runner struct {
	Every    time.Duration // between searches for a policy's thresholds
	Tuner    flow.Tuner
	Now      func() time.Time
	Sketches *prometheus.CounterVec // by verdict

	client client.Client
}

// Setup adds it to a manager, which starts it while it leads.
func (r *Runner) Setup(ctx context.Context, m manager.Manager) error {
	for _, o := range []client.Object{&v1alpha1.FlowPolicy{}, &v1alpha1.NodeFlows{}} {
		if _, err := m.GetCache().GetInformer(ctx, o); err != nil { // before the manager starts it does not wait
			return err
		}
	}
	r.client = m.GetClient()
	return m.Add(r)
}

// Start steps until ctx ends.
func (r *Runner) Start(ctx context.Context) error {
	c := &Central{Every: r.Every, Tuner: r.Tuner, Verdicts: map[Verdict]int{}}
	told := map[Verdict]int{}
	tick := time.NewTicker(stepped)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := r.step(ctx, c); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot bring FlowPolicies up to date")
		}
		for v, n := range c.Verdicts {
			r.Sketches.WithLabelValues(string(v)).Add(float64(n - told[v]))
			told[v] = n
		}
	}
}

// step writes the status of policies whose status is out of date.
func (r *Runner) step(ctx context.Context, c *Central) error {
	var policies v1alpha1.FlowPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var nodes v1alpha1.NodeFlowsList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	ps, ns := make([]*v1alpha1.FlowPolicy, len(policies.Items)), make([]*v1alpha1.NodeFlows, len(nodes.Items))
	present := map[string]*v1alpha1.FlowPolicy{}
	for i := range policies.Items {
		ps[i] = &policies.Items[i]
		present[ps[i].Name] = ps[i]
	}
	for i := range nodes.Items {
		ns[i] = &nodes.Items[i]
	}
	changed, err := c.Step(r.Now(), ps, ns)
	for _, p := range changed {
		// Only onto the version read: a leader that has lost its lease does not overwrite the next
		// one.
		patch := client.MergeFromWithOptions(present[p.Name], client.MergeFromWithOptimisticLock{})
		was := present[p.Name].Status.Sequence
		switch wrong := r.client.Status().Patch(ctx, p, patch); {
		case apierrors.IsConflict(wrong) || apierrors.IsNotFound(wrong): // the next step reads the present version
		case wrong != nil:
			err = errors.Join(err, fmt.Errorf("FlowPolicy %s: %w", p.Name, wrong))
		case p.Status.Sequence != was:
			klog.FromContext(ctx).Info("New thresholds", "policy", p.Name, "sequence", p.Status.Sequence, "thresholds", flow.Thresholds(p.Status.Thresholds).String(), "why", p.Status.Search)
		}
	}
	return err
}
