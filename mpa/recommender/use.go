package recommender

import (
	"context"
	"math"
	"path/filepath"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/history"
	"github.com/sigma-scheduler/sigma/mpa/horizontal"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// interval is the time from one decision to the next for an object: longer, up to a minute, where
// it is sized by use, which changes once a day.
func (r *reconciler) interval(o *v1alpha1.MultidimPodAutoscaler) time.Duration {
	i := r.options.Interval
	if o.ByUse() {
		return max(i, min(4*i, time.Minute))
	}
	return i
}

// historyDir is the folder of the days of use; empty = none is kept.
func (o *Options) historyDir() string {
	if o.UsageHistory == "" && o.JournalDir != "" {
		return filepath.Join(o.JournalDir, ".use")
	}
	return o.UsageHistory
}

// keeper returns the histories of the objects of these options.
func (o *Options) keeper() *history.Keeper {
	return &history.Keeper{Folder: o.historyDir(), Counts: func(m *v1alpha1.MultidimPodAutoscaler) bool {
		return m.Spec.Recommender.Name == o.Name && !target.Ignores(m.Namespace, o.Namespace)
	}}
}

// observeUse adds the input of the algorithms usage and template to an observation.
func (r *reconciler) observeUse(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, w *target.Workload, ob *mpa.Observation) ([]collect.Problem, error) {
	if !o.ByUse() {
		return nil, nil
	}
	var problems []collect.Problem
	use, problem := r.history.Use(o, w)
	if ob.Use = use; problem != nil {
		problems = append(problems, *problem)
	}
	list, err := horizontal.Of(ctx, r, o)
	if err != nil {
		return nil, err
	}
	for i := range list {
		why := horizontal.Apart(&list[i])
		if _, apart := horizontal.Convert(list[i].DeepCopy(), &w.Template.Spec); why == "" && apart != nil {
			why = apart.Error()
		}
		if why != "" && o.Spec.Recommender.Algorithm == v1alpha1.AlgorithmUsage {
			ob.Use.Fixed = why
			return nil, nil
		}
	}
	return problems, nil
}

// boundByUse leaves replicas alone where an object is sized by use, and the way back to the template
// has no bounds.
func boundByUse(o *v1alpha1.MultidimPodAutoscaler, t *mpa.Target) {
	if !o.ByUse() {
		return
	}
	t.Replicas = mpa.Range{Min: 1, Max: math.MaxInt32}
	for i := range t.Containers {
		if o.Spec.Recommender.Algorithm == v1alpha1.AlgorithmTemplate {
			t.Containers[i].Min, t.Containers[i].Max = mpa.Resources{}, mpa.Resources{}
		}
	}
}

// guardByUse sets the guards of an object that is sized by use: the algorithm has a dead band of its
// own, and the way back is exact.
func guardByUse(o *v1alpha1.MultidimPodAutoscaler, s *journal.Setup) {
	switch o.Spec.Recommender.Algorithm {
	case v1alpha1.AlgorithmUsage:
		s.Guards.DeadBand, s.Guards.Headroom = 0, agents.UsageHeadroom
	case v1alpha1.AlgorithmTemplate:
		s.Guards.DeadBand, s.Guards.Headroom = 0, 0
	}
}

// rememberTemplate adds the template that sizes by use began with to the memory in a status.
func (s *journaledState) rememberTemplate(m *v1alpha1.Memory) {
	if s.session == nil || m == nil {
		return
	}
	if u, ok := s.session.Agent().(*agents.Usage); ok {
		t := s.session.Setup().Target
		template, generation := u.Base()
		m.Template, m.TemplateGeneration = sizes(&t, template), generation
	}
}

// recallTemplate takes that over from the status where no journal has it.
func (s *journaledState) recallTemplate(o *v1alpha1.MultidimPodAutoscaler) error {
	u, ok := s.session.Agent().(*agents.Usage)
	m := o.Status.Memory
	if !ok || m == nil || len(m.Template) == 0 {
		return nil
	}
	if known, _ := u.Base(); known != nil {
		return nil
	}
	t := s.session.Setup().Target
	a, ok := actionOf(&v1alpha1.Recommendation{Change: v1alpha1.ChangeRequests, Containers: m.Template}, &t)
	if !ok {
		return nil
	}
	return s.session.RememberTemplate(a.Containers, m.TemplateGeneration)
}
