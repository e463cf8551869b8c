package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Question is a pod and the state in which a node is to be chosen for it.
type Question struct {
	Pod     string         // namespace/name
	App     string         //
	Node    string         // the pod's node, or the one that it was assigned to; "": it waits
	State   *ledger.Ledger // without the pod
	Allowed []int32        // machines that may take it, ascending

	// Of a cluster.
	Cordoned []string          // nodes that are no machines of the state
	Unready  map[string]string // nodes that their condition closes to the pod, with the taint
	Beyond   []string          // requirements of the pod that only a scheduler's filters check
	Waits    string            // the scheduler's reason; "": none is given
	Gates    []string          // scheduling gates of a pod that waits
	Holders  []Holder          // pods with an extended resource that the pod requests, by name
	NoPolicy bool              // the cluster has no PlacementPolicy
	Active   bool              // the policy is one of the cluster
	object   *v1.Pod
	nodes    map[string]*v1.Node

	// Of a decision log.
	File     string // of a log of several
	Line     int
	Time     float64 // seconds since 1970
	Decision *ledger.Decision
	Object   *policy.Object // the active policy; nil: no policy decided
}

// A Holder is a pod on a node with an extended resource, such as a GPU.
type Holder struct {
	Pod      string `json:"pod"` // namespace/name
	Node     string `json:"node"`
	Resource string `json:"resource"`
	Amount   string `json:"amount"`
}

// holders lists the pods on nodes that hold an extended resource of which a pod requests some.
func (p *Picture) holders(pod *v1.Pod) (list []Holder) {
	wants := podspec.Demand(pod)
	for _, o := range p.Pods {
		if o == pod || o.Spec.NodeName == "" {
			continue
		}
		for name, n := range podspec.Demand(o) {
			if n > 0 && wants[name] > 0 && strings.Contains(name, "/") {
				list = append(list, Holder{nameOf(o), o.Spec.NodeName, name, podspec.Format(name, n)})
			}
		}
	}
	slices.SortFunc(list, func(a, b Holder) int {
		return cmp.Or(strings.Compare(a.Pod, b.Pod), strings.Compare(a.Resource, b.Resource))
	})
	return list
}

// Ask returns the question of the node that a pod would get now, if it had none yet.
func (p *Picture) Ask(name, appLabel, fleet string, prices *kube.Prices) (*Question, error) {
	at := slices.IndexFunc(p.Pods, func(o *v1.Pod) bool { return nameOf(o) == name })
	if at < 0 {
		return nil, p.noPod(name)
	}
	pod := p.Pods[at]
	if !podspec.Moves(pod) {
		return nil, fmt.Errorf("no scheduler chooses a node for %s: it is a pod of a DaemonSet, or a static one", name)
	}
	q := &Question{Pod: name, Node: pod.Spec.NodeName, State: ledger.New(), object: pod, nodes: map[string]*v1.Node{}}
	var failed error
	take := func(e *ledger.Event) {
		if err := q.State.Apply(e); err != nil && failed == nil {
			failed = fmt.Errorf("%s %s%s%s: %w", e.Kind, e.Node, e.App, e.Pod, err)
		}
	}
	take(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
		Version: ledger.Version, Fleet: fleet, Units: podspec.Units, MaxShareOfApp: ledger.MaxShareOfApp,
	}})
	cluster := kube.NewTranslator(appLabel, q.State, take)
	cluster.Prices = prices
	cluster.SetRules(p.Rules)
	cluster.SetServed(p.unoffered())
	on := p.standing()
	for _, n := range p.Nodes {
		q.nodes[n.Name] = n
		if n.Spec.Unschedulable {
			q.Cordoned = append(q.Cordoned, n.Name)
		}
		others := slices.DeleteFunc(on[n.Name], func(o *v1.Pod) bool { return o == pod })
		cluster.SetNode(n, others)
	}
	cluster.EnsureApp(pod)
	cluster.Forecast(p.Declared, 0)
	app := cluster.Arrive(pod)
	if failed != nil {
		return nil, failed
	}
	q.App = app.Name()
	q.allow()
	q.Beyond, q.Holders = p.others(appLabel).Unknowns(pod), p.holders(pod)
	for _, name := range cluster.IgnoredResources(pod) {
		q.Beyond = append(q.Beyond, "devices of "+name)
	}
	if unplaced(pod) {
		for _, gate := range pod.Spec.SchedulingGates {
			q.Gates = append(q.Gates, gate.Name)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			q.Waits = c.Message
		}
	}
	return q, nil
}

// noPod is the error of a question about a pod that is none of the picture's.
func (p *Picture) noPod(name string) error {
	const left = "which is no machine that pods share: Sigma leaves it out"
	at := slices.IndexFunc(p.AllPods, func(o *v1.Pod) bool { return nameOf(o) == name })
	if at < 0 {
		return fmt.Errorf("there is no pod %s, or it has ended", name)
	}
	if podspec.Batch(p.AllPods[at]) {
		return fmt.Errorf("%s is a batch pod, on cpu that others leave: Sigma leaves it out of a picture of requests", name)
	}
	if node := p.AllPods[at].Spec.NodeName; node != "" {
		return fmt.Errorf("%s is on the node %s, of AWS Fargate or a virtual one, %s", name, node, left)
	}
	return fmt.Errorf("%s waits for a node of AWS Fargate, %s", name, left)
}

// Refusal returns the taint or label that closes a node to the pod; "" if it is
// unknown, as in a log.
func (q *Question) Refusal(node string) string {
	n, ok := q.nodes[node]
	if !ok {
		return ""
	}
	if taint := q.taint(n); taint != "" {
		return "the pod does not tolerate the taint " + taint
	}
	if part, _ := podspec.NewSelector(q.object).Missing(n); part != "" {
		return "the pod's " + part + " does not admit the node"
	}
	return "the pod's node selector or affinity does not admit the node"
}

// MissingKey returns the label of a nodeSelector or of the node affinity that a node does not have as the pod requires;
// "" if there is none.
func (q *Question) MissingKey(node string) string {
	n, ok := q.nodes[node]
	if !ok {
		return ""
	}
	_, key := podspec.NewSelector(q.object).Missing(n)
	return key
}

// taint returns the first taint of a node that the pod does not tolerate; "": none.
func (q *Question) taint(n *v1.Node) string {
	taint := podspec.Untolerated(n, q.object.Spec.Tolerations)
	if taint == nil {
		return ""
	}
	return taint.ToString()
}

// allow finds the machines that may take the pod, and the nodes that their condition closes to it.
func (q *Question) allow() {
	q.Allowed = append(q.Allowed, q.State.Fits(q.State.AppIndex(q.App), nil)...)
	q.Unready = map[string]string{}
	for name, n := range q.nodes {
		if taint := q.taint(n); taint != "" && podspec.Unwell(n) != nil {
			q.Unready[name] = taint
		}
	}
}

// ErrNoPolicy is the cause of an error where a cluster has no PlacementPolicy at all.
var ErrNoPolicy = errors.New("")

// Policy reads a PlacementPolicy of the cluster.
func (c *Client) Policy(ctx context.Context, name string) (*policy.Object, error) {
	known, err := c.serves(ctx)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("the cluster has no PlacementPolicies: give --policy%w", ErrNoPolicy)
	}
	var object v1alpha1.PlacementPolicy
	switch err := c.get(ctx, v1alpha1.SchemeGroupVersion, "placementpolicies", "", name, &object); {
	case apierrors.IsNotFound(err):
		return nil, c.noPolicy(ctx, name)
	case err != nil:
		return nil, fmt.Errorf("PlacementPolicy %s: %w", name, err)
	}
	// Only the metadata that a policy file may have.
	object.ObjectMeta = metav1.ObjectMeta{Name: object.Name}
	object.TypeMeta = metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: policy.ObjectKind}
	object.Status = v1alpha1.PlacementPolicyStatus{}
	text, err := json.Marshal(&object)
	if err != nil {
		return nil, err
	}
	return policy.Parse("PlacementPolicy "+name, text)
}

// noPolicy returns an error that lists the policies of the cluster.
func (c *Client) noPolicy(ctx context.Context, name string) error {
	objects, err := list(ctx, c, v1alpha1.SchemeGroupVersion, "placementpolicies", "", func(l *v1alpha1.PlacementPolicyList) []v1alpha1.PlacementPolicy { return l.Items })
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return fmt.Errorf("the cluster has no PlacementPolicy %s and no other one: give --policy%w", name, ErrNoPolicy)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return fmt.Errorf("the cluster has no PlacementPolicy %s; with --policy-name there are %s", name, strings.Join(names, ", "))
}

// AskLog returns the question of a pod's node in the state of its latest decision in a log, of
// which paths are the files in order.
func AskLog(paths []string, name string) (*Question, error) {
	last, err := lastDecision(paths, name)
	if err != nil {
		return nil, err
	}
	if last == 0 {
		return nil, fmt.Errorf("%s: no decision on pod %s", strings.Join(paths, ", "), name)
	}
	q := &Question{Pod: name, State: ledger.New()}
	err = eachEvent(paths, func(n int, e *ledger.Event, at *ledger.Files) error {
		if n == last {
			if q.Line = at.Line(); len(paths) > 1 {
				q.File = at.Name()
			}
			return q.decided(e)
		}
		if err := q.State.Apply(e); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", at.Name(), at.Line(), e.Kind, err)
		}
		return nil
	}, last)
	return q, err
}

// lastDecision returns the number of the latest decision on a pod; 0: none.
func lastDecision(paths []string, name string) (last int, err error) {
	err = eachEvent(paths, func(n int, e *ledger.Event, _ *ledger.Files) error {
		if e.Kind == ledger.KindDecide && e.Pod == name {
			last = n
		}
		return nil
	}, math.MaxInt)
	return last, err
}

// eachEvent calls do for the events of a log up to a number, numbered from 1.
func eachEvent(paths []string, do func(n int, e *ledger.Event, at *ledger.Files) error, until int) (err error) {
	events := ledger.OpenFiles(paths...)
	defer func() { err = errors.Join(err, events.Close()) }()
	for n := 1; n <= until; n++ {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(n, e, events); err != nil {
			return err
		}
	}
	return nil
}

// decided sets the fields of the decision from the log: the machines that took the pod,
// and the policy that ranked.
func (q *Question) decided(e *ledger.Event) error {
	if e.Decision == nil {
		return fmt.Errorf("line %d: the decision has no cause", q.Line)
	}
	q.App, q.Node, q.Time, q.Decision = e.App, e.Node, e.Time, e.Decision
	app := q.State.AppIndex(e.App)
	if app < 0 {
		return fmt.Errorf("line %d: app %q is unknown", q.Line, e.App)
	}
	q.Allowed = slices.DeleteFunc(q.State.Fits(app, nil), func(m int32) bool {
		return slices.Contains(e.Infeasible, q.State.NodeName(m))
	})
	for _, node := range e.Extra {
		if m := q.State.MachineIndex(node); m >= 0 {
			q.Allowed = append(q.Allowed, m)
		}
	}
	slices.Sort(q.Allowed)
	q.State.SetClock(cmp.Or(e.Clock, e.Time))
	for _, role := range []ledger.Role{ledger.Primary, ledger.Canary} {
		if object, d := q.State.PolicyFor(role, app); object != nil && d.PolicyDigest == e.PolicyDigest {
			q.Object = object
		}
	}
	return nil
}
