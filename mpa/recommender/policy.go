package recommender

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/learned"
)

// algorithmLearned needs a ScalingPolicy.
const algorithmLearned = "learned"

// policyOf reads a ScalingPolicy; data is its file.
func policyOf(o *v1alpha1.ScalingPolicy) (p *learned.Policy, data []byte, err error) {
	var from learned.Provenance
	if f := o.Spec.Provenance; f != nil {
		from = learned.Provenance{
			Method: f.Method, Evaluations: int(f.Evaluations), Seed: uint64(f.Seed),
			FirstScenario: uint64(f.FirstScenario), Scenarios: int(f.Scenarios), Traces: f.Traces, Journaled: int(f.JournaledPieces),
			Objective: f.Objective, Cost: f.ValidationCost, Kept: int(f.ValidationKept), PairKept: int(f.ValidationKeptByPair),
			Journal: f.Journal, Replaces: f.ReplacesDigest, Pieces: int(f.Pieces), PiecesCost: f.PiecesCost, ReplacesCost: f.ReplacesCost,
			Module: f.Module,
		}
	}
	return learned.Read(o.Name, int(o.Spec.Version), o.Spec.Numbers, from)
}

// policies writes to the status of each ScalingPolicy whether it is accepted.
type policies struct{ client.Client }

// Reconcile implements [ctrl.Reconciler].
func (r *policies) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o := &v1alpha1.ScalingPolicy{}
	if err := r.Get(ctx, request.NamespacedName, o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	next := o.DeepCopy()
	accepted := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", ObservedGeneration: o.Generation,
		Message: "The algorithm learned can decide with it.",
	}
	next.Status.Digest = ""
	if p, _, err := policyOf(o); err != nil {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, "Invalid", bounded.Text(err.Error())
	} else {
		next.Status.Digest = p.Digest
	}
	meta.SetStatusCondition(&next.Status.Conditions, accepted)
	if equality.Semantic.DeepEqual(o.Status, next.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Status().Patch(ctx, next, client.MergeFrom(o)))
}

// A served policy is the last accepted one of the name in an object's spec.
type served struct {
	name, digest string
	uid          types.UID
	generation   int64
}

// An acceptance is the state of the policy that an object's spec names.
type acceptance struct {
	reason string // empty = it decides
	err    error
	serves bool // it or the one before decides, not the fallback
}

// usePolicy gives a setup its policy: the present one or, if that is deleted or not accepted,
// the last one of the name. Without either the fallback replaces the agent.
func (r *reconciler) usePolicy(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, setup *journal.Setup) {
	s.retrain.status = o.Status.Retraining.DeepCopy()
	if s.retrain.status == nil {
		s.retrain.status = &v1alpha1.RetrainingStatus{}
	}
	if setup.Agent.Name != algorithmLearned {
		s.learned.policy, s.learned.accepted = nil, nil
		return
	}
	name := r.policyName(ctx, o, s)
	retrained := name != o.Spec.Recommender.Policy
	if s.learned.policy != nil && s.learned.policy.name != name {
		s.learned.policy = nil
	}
	a := &acceptance{}
	a.reason, a.err = r.readPolicy(ctx, name, s)
	s.learned.accepted = a
	if a.serves = s.learned.policy != nil; a.serves {
		setup.Agent.Digest, setup.Learning = s.learned.policy.digest, phasesOf(o, a.reason != "")
		if retrained { // whatever phase the spec begins its own policy with
			setup.Learning.Begin = mpa.OfflineTraining
		}
		return
	}
	setup.Agent = mpa.Spec{Name: defaultFallback}
	if setup.Fallback != nil {
		setup.Agent, setup.Fallback = setup.Fallback.Agent, nil
	}
}

// defaultFallback decides where the algorithm learned cannot and the spec names no fallback.
const defaultFallback = "hpa+vpa"

// readPolicy loads a policy if it has changed, or returns the reason that it cannot decide.
func (r *reconciler) readPolicy(ctx context.Context, name string, s *object) (reason string, err error) {
	if name == "" {
		return "PolicyMissing", errors.New("spec.recommender.policy: the algorithm learned needs a ScalingPolicy")
	}
	o := &v1alpha1.ScalingPolicy{}
	switch err := r.Get(ctx, client.ObjectKey{Name: name}, o); {
	case apierrors.IsNotFound(err):
		return "PolicyMissing", fmt.Errorf("there is no ScalingPolicy %s", name)
	case err != nil:
		return "PolicyMissing", err
	case s.learned.policy != nil && s.learned.policy.uid == o.UID && s.learned.policy.generation == o.Generation:
		return "", nil
	}
	p, data, err := policyOf(o)
	if err != nil {
		return "PolicyInvalid", fmt.Errorf("ScalingPolicy %s: %w", name, err)
	}
	s.learned.weights.Add(data)
	s.learned.policy = &served{name, p.Digest, o.UID, o.Generation}
	return "", nil
}

// dropWeights unloads the policies that the session no longer uses.
func (s *object) dropWeights() {
	digest := s.journaled.session.Setup().Agent.Digest
	maps.DeleteFunc(s.learned.weights, func(loaded string, _ []byte) bool { return loaded != digest })
}

// setAccepted sets the condition of an object whose algorithm needs a policy.
func (s *learnedPolicy) setAccepted(o *v1alpha1.MultidimPodAutoscaler, next *v1alpha1.MultidimPodAutoscalerStatus) {
	switch a := s.accepted; {
	case a == nil:
	case a.reason == "":
		set(o, next, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "PolicyValid", "ScalingPolicy %s, %s, is in use.", s.policy.name, s.policy.digest)
	case a.serves:
		set(o, next, v1alpha1.ConditionAccepted, metav1.ConditionFalse, a.reason,
			"%v; the last one, %s, goes on until the recommender restarts, in the shadow of the rules unless it is Serving", a.err, s.policy.digest)
	default:
		set(o, next, v1alpha1.ConditionAccepted, metav1.ConditionFalse, a.reason, "%v; the fallback decides", a.err)
	}
}
