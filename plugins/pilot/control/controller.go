package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	recorded "github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

const (
	// lookEvery is the time between two steps of a loop.
	lookEvery = 5 * time.Second
	// tellEvery is how often the status is written where only the reasons and the time have changed.
	tellEvery = 30 * time.Second
)

// Options of the controller.
type Options struct {
	History string // folder, the volume with the decision logs
	State   string // folder for the files of the pilots
	// Namespace is where the pages are published and Jobs are made; "" = nowhere.
	Namespace string
}

// A reconciler steps the loops.
type reconciler struct {
	Options
	client client.Client
	live   client.Reader // the API server, without a cache
	events record.EventRecorder
	now    func() time.Time
	ctx    context.Context // of jobs, which outlive a reconciliation
	loops  map[string]*loop
}

// A loop is the state of a pilot in this process.
type loop struct {
	uid    string
	path   string // of the log
	log    *recorded.Log
	record *recorded.Segments
	worker *worker
	told   time.Time // time of the last write of the status
	// spec is the last valid spec, as it was saved; fault is the reason why the last step failed.
	spec  []byte
	fault string
	sent  []byte // the page, as the ConfigMap has it
}

// Setup adds the controller to a manager. Trainings and judgements end with ctx.
func Setup(ctx context.Context, m manager.Manager, o Options) error {
	register()
	r := &reconciler{
		Options: o, client: m.GetClient(), live: m.GetAPIReader(), now: time.Now, ctx: ctx, loops: map[string]*loop{},
		// The recorder that replaces it folds events of one reason and keeps the first text only.
		events: m.GetEventRecorderFor(owner), //nolint:staticcheck // see above
	}
	return ctrl.NewControllerManagedBy(m).Named("policypilot").
		For(&v1alpha1.PolicyPilot{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Complete(r)
}

// Reconcile takes one step of a pilot, and the next one soon after.
func (r *reconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	if there, err := r.step(ctx, q); err != nil || !there {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: lookEvery}, nil
}

// step takes one step. there is false if the pilot was deleted.
func (r *reconciler) step(ctx context.Context, q ctrl.Request) (there bool, err error) {
	o := &v1alpha1.PolicyPilot{}
	if err := r.live.Get(ctx, q.NamespacedName, o); apierrors.IsNotFound(err) {
		r.drop(q.Name)
		return false, nil
	} else if err != nil {
		return true, err
	}
	was := o.Status.DeepCopy()
	held := r.former(o)
	settings, primary, why, err := r.accept(ctx, o)
	if err != nil {
		return true, err
	}
	o.Status.ObservedGeneration = o.Generation
	if why != nil {
		set(o, v1alpha1.ConditionAccepted, false, "Refused", why.Error())
		o.Status.Reasons = []string{why.Error()}
		return true, r.tell(ctx, o, was, nil)
	}
	if held == "" {
		set(o, v1alpha1.ConditionAccepted, true, "Valid", "The spec is carried out.")
	} else {
		set(o, v1alpha1.ConditionAccepted, false, "Refused", held)
	}
	machine, err := pilot.NewLoop(*settings)
	if err != nil {
		return true, err
	}
	var state pilot.State
	if o.Status.Memory != nil {
		if err := json.Unmarshal(o.Status.Memory.Raw, &state); err != nil {
			set(o, v1alpha1.ConditionAccepted, false, "Unreadable", "status.memory: "+err.Error())
			return true, r.tell(ctx, o, was, nil)
		}
	}
	l, err := r.loop(o)
	if err != nil {
		set(o, v1alpha1.ConditionRecording, false, "Unusable", err.Error())
		o.Status.Reasons = []string{err.Error()}
		return true, r.tell(ctx, o, was, nil)
	}
	if held == "" {
		held = l.remember(&o.Spec)
	}
	now := r.now().UTC()
	e, candidate, hold, err := r.gather(ctx, o, l, settings, &state, primary, now)
	if err != nil {
		return true, err
	}
	var out pilot.Outcome
	if hold = cmp.Or(held, hold); hold != "" {
		out = machine.Hold(now, state, e, hold)
	} else {
		out = machine.Step(now, state, e)
	}
	if candidate.fault != "" {
		out.Reasons = append(out.Reasons, candidateOf(&o.Spec)+" cannot be read: "+candidate.fault)
	}
	if l.fault != "" {
		out.Reasons = append(out.Reasons, "the last step could not be carried out: "+l.fault)
	}
	if waits := l.worker.waiting(); waits != "" && out.State.Phase == pilot.Training {
		out.Reasons = append(out.Reasons, waits)
	}
	if err := l.worker.noteLive(out.State.InForce, state.InForce, now); err != nil {
		out.Reasons = append(out.Reasons, err.Error())
	}
	if err := describe(o, &out, l.worker); err != nil {
		return true, err
	}
	if err := r.tell(ctx, o, was, l); err != nil {
		return true, err
	}
	err = r.act(ctx, o, l, settings, &out, primary, candidate)
	if wrong := l.worker.prune(&out.State); wrong != nil {
		klog.FromContext(ctx).Error(wrong, "Cannot remove old policies", "pilot", o.Name)
	}
	// The page is written last: nothing depends on it.
	if wrong := cmp.Or(l.worker.note(o.Name, o.Spec.Policy, &out, now), r.show(ctx, o, l)); wrong != nil {
		klog.FromContext(ctx).Error(wrong, "Cannot publish the page", "pilot", o.Name)
	}
	if l.fault = ""; err != nil {
		l.fault = err.Error()
	}
	return true, err
}

// former replaces an invalid spec of a pilot by its last valid one, in memory, so its limits stay watched.
// It returns the error of the new spec; "" = it is valid, or there was no valid one before.
func (r *reconciler) former(o *v1alpha1.PolicyPilot) (why string) {
	_, wrong := settingsOf(&o.Spec)
	if wrong == nil {
		return ""
	}
	var was v1alpha1.PolicyPilotSpec
	if err := (shelf{r.folder(o)}).load(specFile, &was); err != nil || was.Policy != o.Spec.Policy {
		return ""
	}
	if _, err := settingsOf(&was); err != nil {
		return ""
	}
	o.Spec = was
	return wrong.Error()
}

// remember saves a valid spec. why is the reason why it could not.
func (l *loop) remember(spec *v1alpha1.PolicyPilotSpec) (why string) {
	text, err := json.Marshal(spec)
	if err == nil && bytes.Equal(text, l.spec) {
		return ""
	}
	if err == nil {
		err = l.worker.shelf.save(specFile, spec)
	}
	if err != nil {
		return "the spec cannot be kept: " + err.Error()
	}
	l.spec = text
	return ""
}

// folder is that of a pilot's files.
func (r *reconciler) folder(o *v1alpha1.PolicyPilot) string {
	return filepath.Join(r.State, o.Name+"-"+string(o.UID))
}

func (r *reconciler) drop(name string) {
	if l := r.loops[name]; l != nil {
		l.worker.close()
		l.log.Close()
		delete(r.loops, name)
	}
	publish(name, paths{})
}

// accept returns the settings of a pilot and the policy that it steers, or why it cannot be carried out.
func (r *reconciler) accept(ctx context.Context, o *v1alpha1.PolicyPilot) (s *pilot.Settings, primary *held, why, err error) {
	if s, why = settingsOf(&o.Spec); why != nil {
		return nil, nil, why, nil
	}
	var all v1alpha1.PolicyPilotList
	if err := r.client.List(ctx, &all); err != nil {
		return nil, nil, nil, err
	}
	if other := rival(all.Items, o); other != nil {
		return nil, nil, &pilot.FieldError{Field: "spec.policy", Reason: fmt.Sprintf("the PolicyPilot %s steers a PlacementPolicy of this one, and is older", other.Name)}, nil
	}
	primary, err = read(ctx, r.live, o.Spec.Policy)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil, &pilot.FieldError{Field: "spec.policy", Reason: fmt.Sprintf("sigma-pilot may not read the PlacementPolicy %s: its ClusterRole names those that it steers", o.Spec.Policy)}, nil
	case err != nil:
		return nil, nil, nil, err
	case primary.object == nil:
		return nil, nil, &pilot.FieldError{Field: "spec.policy", Reason: fmt.Sprintf("there is no PlacementPolicy %s", o.Spec.Policy)}, nil
	case primary.fault != "":
		return nil, nil, &pilot.FieldError{Field: "spec.policy", Reason: primary.fault}, nil
	}
	return s, primary, nil, nil
}

// loop is that of a pilot in this process.
func (r *reconciler) loop(o *v1alpha1.PolicyPilot) (*loop, error) {
	path := filepath.Join(r.History, o.Spec.Record.Log)
	l := r.loops[o.Name]
	limits := limitsOf(&o.Spec)
	if l != nil && l.uid == string(o.UID) && l.path == path && l.worker.baseline == o.Spec.Baseline {
		l.record.Limit(limits)
		return l, nil
	}
	r.drop(o.Name)
	s, err := newShelf(r.folder(o))
	if err != nil {
		return nil, err
	}
	w, err := newWorker(s, o.Spec.Baseline)
	if err != nil {
		return nil, err
	}
	segments, err := recorded.OpenSegments(filepath.Join(s.dir, segmentsDir), limits)
	if err != nil {
		return nil, err
	}
	l = &loop{uid: string(o.UID), path: path, log: recorded.Follow(path, segments, r.now().Add(-recorded.Open)), record: segments, worker: w}
	r.loops[o.Name] = l
	return l, nil
}
