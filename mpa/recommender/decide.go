package recommender

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
)

// object is what is known of an object between two decisions. One worker at a time has
// it.
type object struct {
	uid        types.UID
	generation int64 // that the last decision was about
	next       time.Time

	who        who
	agent      mpa.Agent
	controller *mpa.Controller // nil = to be made from the status

	recommendation *v1alpha1.Recommendation // the last, as it was written
	id             int64                    // the largest that is known of
	said           string                   // of the status that was written last
	written        time.Time
	refused        string // the reason, while it is
}

// who decides, and for what. What an agent has learned is kept as long as this is the same.
type who struct {
	target             mpa.Target // without Off
	algorithm, instead string
	after, maxAge      time.Duration
}

// errForeign is of an object that somebody else has recommended for.
var errForeign = errors.New("another recommender has written a recommendation")

// decide looks at an object once and writes what came of it.
func (r *reconciler) decide(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, now time.Time) error {
	w, no, err := r.target(ctx, o)
	if err != nil {
		return err
	}
	if no == nil {
		no = s.prepare(ctx, o)
	}
	if no != nil {
		return r.write(ctx, o, s, refusedStatus(o, s, w, no, now), now)
	}
	ob, problems, err := r.collector.Observe(ctx, o, w, now)
	if err != nil {
		return err
	}
	memory := s.controller.Memory()
	begin := r.clock.Now()
	d := s.controller.Decide(ob)
	decisionSeconds.Observe(r.clock.Since(begin).Seconds())

	next := statusOf(o, s, ob, &d, problems)
	if err := r.write(ctx, o, s, next, now); err != nil {
		if d.Action != nil && s.controller != nil {
			// Not written is not decided; or it was, and the status says so.
			s.controller, _ = newController(o, s, memory)
		}
		return err
	}
	r.tell(o, s, ob, &d, problems)
	return nil
}

// prepare makes the controller when there is none, its spec is another, or somebody else
// has recommended.
func (s *object) prepare(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler) *refusal {
	target, err := targetOf(o)
	if err != nil {
		return refuse("SpecInvalid", "%v", err)
	}
	foreign := lastID(&o.Status) > s.id
	if s.controller != nil && !foreign && s.generation == o.Generation {
		return nil
	}
	var memory mpa.Memory
	if s.controller == nil || foreign {
		memory = memoryOf(o, &target)
		s.recommendation, s.id = o.Status.Recommendation.DeepCopy(), max(s.id, lastID(&o.Status))
	} else {
		memory = s.controller.Memory()
	}
	next := whoOf(o, target)
	if s.agent == nil || !reflect.DeepEqual(next, s.who) {
		agent, err := next.agent()
		if err != nil {
			s.controller = nil
			return refuse("AlgorithmUnknown", "%v", err)
		}
		s.agent, s.who = agent, next
	}
	if s.controller, err = newController(o, s, memory); err != nil {
		log.FromContext(ctx).Error(err, "What the status remembers cannot be used; the guards begin anew")
		s.controller, err = newController(o, s, mpa.Memory{})
	}
	if err != nil {
		return refuse("SpecInvalid", "%v", err)
	}
	return nil
}

func newController(o *v1alpha1.MultidimPodAutoscaler, s *object, memory mpa.Memory) (*mpa.Controller, error) {
	target := s.who.target
	target.Off = o.Spec.Mode == v1alpha1.ModeOff
	guards := mpa.DefaultGuards()
	guards.MaxAge = s.who.maxAge
	c, err := mpa.NewController(target, s.agent, guards)
	if err != nil {
		return nil, err
	}
	return c, c.Restore(memory)
}

func whoOf(o *v1alpha1.MultidimPodAutoscaler, target mpa.Target) who {
	target.Off = false
	w := who{target: target, algorithm: o.Spec.Recommender.Algorithm, maxAge: collect.MaxAge(o)}
	if f := o.Spec.Fallback; f != nil {
		w.instead, w.after = f.Algorithm, 3*time.Minute
		if f.After != nil {
			w.after = f.After.Duration
		}
	}
	return w
}

func (w *who) agent() (mpa.Agent, error) {
	first, err := mpa.NewAgent(w.algorithm, w.target)
	if err != nil {
		return nil, fmt.Errorf("recommender.algorithm: %w", err)
	}
	if w.instead == "" {
		return first, nil
	}
	second, err := mpa.NewAgent(w.instead, w.target)
	if err != nil {
		return nil, fmt.Errorf("fallback.algorithm: %w", err)
	}
	return &mpa.Fallback{First: first, Second: second, After: w.after}, nil
}

// lastID is the largest id that anybody used.
func lastID(s *v1alpha1.MultidimPodAutoscalerStatus) int64 {
	id := int64(0)
	if s.Recommendation != nil {
		id = s.Recommendation.ID
	}
	if s.Actuation != nil {
		id = max(id, s.Actuation.ID)
	}
	return id
}

// write applies this half of the status where it says something new, or has not been
// written for long.
func (r *reconciler) write(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, next *v1alpha1.MultidimPodAutoscalerStatus, now time.Time) error {
	said := saying(next)
	if age := now.Sub(s.written); said == s.said && age >= 0 && age < tellEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	err := r.apply(ctx, o, o.ResourceVersion, next)
	for attempt := 0; apierrors.IsConflict(err) && attempt < 3; attempt++ {
		live := &v1alpha1.MultidimPodAutoscaler{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return err
		}
		switch {
		case live.UID != o.UID || live.Generation != o.Generation:
			return err
		case lastID(&live.Status) > s.id:
			s.controller = nil
			return errForeign
		}
		err = r.apply(ctx, o, live.ResourceVersion, next)
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	s.said, s.written = said, now
	if s.recommendation = next.Recommendation; s.recommendation != nil {
		s.id = max(s.id, s.recommendation.ID)
	}
	refused := ""
	if next.Phase == v1alpha1.PhaseRefused {
		c := condition(next, v1alpha1.ConditionActive)
		if refused = c.Reason; refused != s.refused {
			r.events.Event(o, corev1.EventTypeWarning, c.Reason, c.Message)
		}
	} else if s.refused != "" {
		r.events.Event(o, corev1.EventTypeNormal, "Resumed", "The workload is sized again.")
	}
	s.refused = refused
	return nil
}

// apply writes the fields of the recommender if the object is still that version.
func (r *reconciler) apply(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, version string, next *v1alpha1.MultidimPodAutoscalerStatus) error {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(next)
	if err != nil {
		return err
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	patch.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("MultidimPodAutoscaler"))
	patch.SetNamespace(o.Namespace)
	patch.SetName(o.Name)
	patch.SetUID(o.UID)
	patch.SetResourceVersion(version)
	return r.Status().Patch(ctx, patch, client.Apply, client.FieldOwner(v1alpha1.OwnerRecommender), client.ForceOwnership)
}

// tell says what was decided in events and metrics.
func (r *reconciler) tell(o *v1alpha1.MultidimPodAutoscaler, s *object, ob *mpa.Observation, d *mpa.Decision, problems []collect.Problem) {
	key := client.ObjectKeyFromObject(o)
	measured(key, o, ob, d, problems)
	if d.Action != nil {
		r.events.Eventf(o, corev1.EventTypeNormal, "Recommended", "%s instead of what there is: %s", d.Action, d.Reason)
		recommended(key, s.recommendation)
	}
}

// micro is a time as statuses keep it.
func micro(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t) }
