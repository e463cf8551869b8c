package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// TestScenarios runs the stories of testdata: what a scheduler does for a cluster,
// command by command, with what the engine makes of it. `make golden` rewrites the
// outputs. The commands are the methods of stage.
func TestScenarios(t *testing.T) {
	count := 0
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		count++
		s := &stage{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if s.lab != nil {
				s.T = t
			}
			return s.run(t, d)
		})
		if s.lab != nil {
			s.T = t
			s.verify() // every decision can be computed again
		}
	})
	require.GreaterOrEqual(t, count, 10)
}

// A stage is a cluster with a scheduler, which a scenario's commands play on.
type stage struct {
	*lab
	pods     map[string]*v1.Pod
	rules    map[string]*kube.Rule
	declared kube.Declarations
	verdicts map[string]*Verdict // of the last rank, by pod
	shown    int                 // lines of the log
}

func (s *stage) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if d.Cmd == "scheduler" {
		return s.scheduler(t, d)
	}
	commands := map[string]func(*datadriven.TestData) string{
		"node": s.addNode, "cordon": s.cordon, "uncordon": s.cordon, "remove": s.remove,
		"pod": s.pod, "leave": s.leaves, "rule": s.rule, "served": s.served, "policy": s.policy, "declare": s.declare, "tick": s.tick,
		"rank": s.ranks, "bind": s.bind, "lose": s.lose, "restart": s.restarts,
		"state": s.nodesState, "log": s.log, "replay": s.replay,
	}
	command, ok := commands[d.Cmd]
	if !ok {
		d.Fatalf(t, "unknown command; there are scheduler, %s", strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
	}
	if s.lab == nil {
		d.Fatalf(t, "a scenario begins with the command scheduler")
	}
	return command(d)
}

// arg is the value of an argument; "" where it is missing.
func arg(d *datadriven.TestData, key string) string {
	if a, ok := d.Arg(key); ok {
		return a.FirstVal(&testing.T{})
	}
	return ""
}

// name is a command's first argument.
func (s *stage) name(d *datadriven.TestData) string {
	if len(d.CmdArgs) == 0 {
		d.Fatalf(s.T, "a name is missing")
	}
	return d.CmdArgs[0].Key
}

// scheduler fleet=open|fixed begins with an empty cluster and a live scheduler.
func (s *stage) scheduler(t *testing.T, d *datadriven.TestData) string {
	fleet := "fixed"
	d.MaybeScanArgs(t, "fleet", &fleet)
	*s = stage{pods: map[string]*v1.Pod{}, rules: map[string]*kube.Rule{}, verdicts: map[string]*Verdict{}}
	s.lab = newLab(t, func(o *Options) { o.Fleet, o.Profile = fleet, "scenario" })
	return ""
}

// addNode is `node NAME cores=N [gpus=N]`: 4 GiB of memory for each core, room for 110
// pods.
func (s *stage) addNode(d *datadriven.TestData) string {
	cores := 4
	d.MaybeScanArgs(s.T, "cores", &cores)
	s.node(s.name(d), cores)
	if gpus := arg(d, "gpus"); gpus != "" {
		s.nodes[s.name(d)].Status.Allocatable["example.com/gpu"] = resource.MustParse(gpus)
	}
	return ""
}

// served is `served [NAME…]`: the extended resources that drivers serve.
func (s *stage) served(d *datadriven.TestData) string {
	var names []string
	for _, a := range d.CmdArgs {
		names = append(names, a.Key)
	}
	s.SetServed(names)
	return ""
}

// cordon is `cordon NAME` and `uncordon NAME`.
func (s *stage) cordon(d *datadriven.TestData) string {
	name := s.name(d)
	s.nodes[name] = s.nodes[name].DeepCopy()
	s.nodes[name].Spec.Unschedulable = d.Cmd == "cordon"
	s.dirty[name] = true
	return ""
}

// remove is `remove NAME`: the node is gone, with the pods on it.
func (s *stage) remove(d *datadriven.TestData) string {
	name := s.name(d)
	for _, p := range s.on[name] {
		s.Deleted(p)
	}
	delete(s.on, name)
	delete(s.nodes, name)
	s.dirty[name] = true
	return ""
}

// pod is `pod NAME app=A [cpu=Q] [memory=Q] [gpus=N] [on=NODE]`. With on it stands there by
// somebody else's decision.
func (s *stage) pod(d *datadriven.TestData) string {
	cpu, memory, app, on := "1", "1Gi", "", ""
	d.ScanArgs(s.T, "app", &app)
	d.MaybeScanArgs(s.T, "cpu", &cpu)
	d.MaybeScanArgs(s.T, "memory", &memory)
	d.MaybeScanArgs(s.T, "on", &on)
	p := pod(s.name(d), app, asks("cpu", cpu), asks("memory", memory))
	if gpus := arg(d, "gpus"); gpus != "" {
		asks("example.com/gpu", gpus)(p)
	}
	if on != "" {
		p = s.stand(p, on)
	}
	s.pods[p.Name] = p
	return ""
}

// leaves is `leave NAME`: the pod is deleted.
func (s *stage) leaves(d *datadriven.TestData) string {
	s.leave(s.pods[s.name(d)])
	return ""
}

// rule is `rule NAME app=A [limit=N] [spread=N] [excludes=A]`, or `rule NAME gone`.
func (s *stage) rule(d *datadriven.TestData) string {
	name := s.name(d)
	delete(s.rules, name)
	if !d.HasArg("gone") {
		var app, excludes string
		var limit, spread int
		d.ScanArgs(s.T, "app", &app)
		d.MaybeScanArgs(s.T, "excludes", &excludes)
		d.MaybeScanArgs(s.T, "limit", &limit)
		d.MaybeScanArgs(s.T, "spread", &spread)
		spec := v1alpha1.PlacementRuleSpec{PodSet: picks(app)}
		if limit > 0 {
			spec.MaxPerNode = new(int32(limit))
		}
		if spread > 0 {
			spec.SpreadMin = new(int32(spread))
		}
		if excludes != "" {
			spec.Excludes = []v1alpha1.Exclusion{{PodSet: picks(excludes)}}
		}
		s.rules[name] = rule(s.T, name, spec)
	}
	var list []*kube.Rule
	for _, name := range slices.Sorted(maps.Keys(s.rules)) {
		list = append(list, s.rules[name])
	}
	s.SetRules(list)
	return ""
}

// policy is `policy primary|canary NAME [mode=M] [percent=N]`. NAME is spreading,
// which takes the emptiest node, packing, which takes the fullest, a shipped policy,
// or none.
func (s *stage) policy(d *datadriven.TestData) string {
	role := ledger.Role(s.name(d))
	name, m, percent := d.CmdArgs[1].Key, "live", 0
	d.MaybeScanArgs(s.T, "mode", &m)
	changes := []func(*policy.Spec){mode(policy.Mode(m))}
	if d.HasArg("percent") {
		d.ScanArgs(s.T, "percent", &percent)
		changes = append(changes, mode(policy.Mode(m), percent))
	}
	switch name {
	case "none":
		s.SetPolicy(role, nil)
	case "spreading":
		s.SetPolicy(role, spreading(changes...))
	case "packing":
		object := spreading(changes...)
		object.Metadata.Name, object.Spec.Weights = name, []float64{1}
		s.SetPolicy(role, object)
	default:
		s.SetPolicy(role, shipped(s.T, name, changes...))
	}
	return ""
}

// declare is `declare app=A replicas=N [cpu=Q]`: a Deployment of such pods.
func (s *stage) declare(d *datadriven.TestData) string {
	app, cpu, replicas := "", "1", 0
	d.ScanArgs(s.T, "app", &app)
	d.ScanArgs(s.T, "replicas", &replicas)
	d.MaybeScanArgs(s.T, "cpu", &cpu)
	o := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}}
	template := pod("template", app, asks("cpu", cpu))
	o.Spec.Replicas, o.Spec.Template.Labels, o.Spec.Template.Spec = new(int32(replicas)), template.Labels, template.Spec
	s.declared.Deployments = append(slices.Clone(s.declared.Deployments), o)
	declared := s.declared
	s.SetDeclared(&declared)
	return ""
}

// tick is `tick DURATION`: time passes.
func (s *stage) tick(d *datadriven.TestData) string {
	by, err := time.ParseDuration(s.name(d))
	require.NoError(s.T, err)
	s.now = s.now.Add(by)
	return ""
}

// ranks is `rank POD [refused=(NODE,…)] [passed=(NODE,…)] [fails=panic|not-finite]`:
// a cycle of the scheduler up to the policy's verdict. The nodes that the engine's
// own model allows pass the filters, but those refused; or just those passed. With
// fails the policy does so.
func (s *stage) ranks(d *datadriven.TestData) string {
	p := s.pods[s.name(d)]
	s.sync()
	var nodes []string
	if a, ok := d.Arg("passed"); ok {
		nodes = a.Vals
	} else {
		refused, _ := d.Arg("refused")
		a := s.state.cluster.EnsureApp(p)
		for _, m := range s.state.ledger.Fits(s.state.ledger.AppIndex(a.Name()), nil) {
			if name := s.state.ledger.NodeName(m); !slices.Contains(refused.Vals, name) {
				nodes = append(nodes, name)
			}
		}
	}
	switch arg(d, "fails") {
	case "panic":
		s.spoil(func() error { panic("index out of range") })
	case "not-finite":
		s.spoil(func() error { return fmt.Errorf("node a: %w", binpack.ErrNotFinite) })
	}
	v := s.Rank(s.Context(), p, nodes)
	s.ranking.rankBy = s.state.ledger.Rank
	s.verdicts[p.Name] = v
	var b strings.Builder
	decides := "decides"
	if !v.Decides {
		decides = "does not decide"
	}
	fmt.Fprintf(&b, "%s: %s, cause %s\n", cmp.Or(v.decision.Mode, "no policy"), decides, v.decision.Cause)
	for i, r := range v.Ranked {
		fmt.Fprintf(&b, "%d. %s  score %.4g\n", i+1, r.Node, r.Score)
	}
	for _, text := range s.told() {
		fmt.Fprintf(&b, "event %s\n", text)
	}
	return b.String()
}

// bind is `bind POD [NODE]`: the scheduler assumes the pod there; without NODE on
// the first of the ranking, and without a ranking on the only node that passed.
func (s *stage) bind(d *datadriven.TestData) string {
	p := s.pods[s.name(d)]
	v := s.verdicts[p.Name]
	delete(s.verdicts, p.Name)
	node := ""
	if len(d.CmdArgs) > 1 {
		node = d.CmdArgs[1].Key
	} else {
		require.NotNil(s.T, v, "%s was not ranked: name a node", p.Name)
		node = v.Ranked[0].Node
	}
	s.Reserve(s.stand(p, node), node, v)
	return fmt.Sprintf("%s on %s\n", p.Name, node)
}

// lose is `lose POD [bound]`: the API server's answer to the binding is lost or an
// error. With bound the pod has its node all the same.
func (s *stage) lose(d *datadriven.TestData) string {
	p := s.pods[s.name(d)]
	s.BindFailed(p)
	for node := range s.on {
		if !d.HasArg("bound") {
			s.on[node] = slices.DeleteFunc(s.on[node], func(q *v1.Pod) bool { return q.UID == p.UID })
		}
		s.dirty[node] = true
	}
	return ""
}

// restarts is `restart`: the scheduler's process ends and another one begins.
func (s *stage) restarts(*datadriven.TestData) string {
	s.restart()
	clear(s.verdicts)
	return ""
}

// nodesState is `state`: what the engine has on each node.
func (s *stage) nodesState(*datadriven.TestData) string {
	s.sync()
	var b strings.Builder
	l := s.state.ledger
	for _, n := range slices.SortedFunc(l.Nodes(), func(a, b *ledger.Node) int { return strings.Compare(a.Name(), b.Name()) }) {
		free := "cordoned"
		if m := l.MachineIndex(n.Name()); m >= 0 {
			free = fmt.Sprintf("cpu free %gm", float64(l.Columns().Free(0)[m]))
		}
		var pods []string
		for _, p := range n.Pods() {
			pods = append(pods, p.UID())
		}
		slices.Sort(pods)
		fmt.Fprintf(&b, "%s: %s: %s\n", n.Name(), free, cmp.Or(strings.Join(pods, " "), "empty"))
	}
	return b.String()
}

// log is `log`: the events that were logged since the last look at it.
func (s *stage) log(*datadriven.TestData) string {
	s.sync()
	events := s.logged("")
	var b strings.Builder
	for _, e := range events[s.shown:] {
		fmt.Fprintf(&b, "%s%s\n", e.Kind, eventText(e))
	}
	s.shown = len(events)
	return b.String()
}

// eventText is what a person wants to know of an event.
func eventText(e *ledger.Event) string {
	text := ""
	add := func(format string, value string) {
		if value != "" {
			text += fmt.Sprintf(" "+format, value)
		}
	}
	add("%s", strings.TrimPrefix(e.Pod, "default/"))
	add("%s", string(e.Role))
	switch {
	case e.Policy != nil:
		add("%s", e.Policy.Metadata.Name)
	case e.Kind == ledger.KindPolicy:
		add("%s", "none")
	}
	if e.Kind == ledger.KindNode || e.Kind == ledger.KindForget || e.Pod != "" {
		add("on %s", e.Node)
	}
	if e.Pod == "" {
		add("%s", e.App)
	}
	if e.Machine != nil && e.Machine.Cordoned {
		add("%s", "cordoned")
	}
	if s := e.Spec; s != nil {
		text += fmt.Sprintf(" limit %d spread %d", s.MaxPerMachine, s.SpreadMin)
	}
	for _, r := range e.Rules {
		text += fmt.Sprintf(" (%s, %s, %d)", r.App, r.Other, r.Max)
	}
	for _, app := range slices.Sorted(maps.Keys(e.Expected)) {
		text += fmt.Sprintf(" %s %g", app, e.Expected[app])
	}
	if d := e.Decision; d != nil {
		add("cause %s", d.Cause)
		add("choice %s", d.Choice)
		add("infeasible %s", strings.Join(d.Infeasible, ","))
		add("extra %s", strings.Join(d.Extra, ","))
	}
	return text
}

// replay is `replay`: the decisions of the log, computed again from it alone.
func (s *stage) replay(*datadriven.TestData) string {
	v := s.verify()
	text := fmt.Sprintf("starts %d, decisions %d, agreed %d, refused %d\n", v.Starts, v.Decisions, v.Agreed, v.Refused)
	for _, cause := range slices.Sorted(maps.Keys(v.Causes)) {
		text += fmt.Sprintf("%s %d\n", cause, v.Causes[cause])
	}
	return text
}
