package ledger_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A dice gives numbers in [0, n): a seeded generator, or the bytes of a fuzzer.
type dice interface{ IntN(n int) int }

func seeded(seed uint64) dice { return rand.New(rand.NewPCG(seed, 4)) }

func oneOf[T any](d dice, values ...T) T { return values[d.IntN(len(values))] }

// shipped is a policy that Sigma ships; "FILE LEVEL" is one at another level of knowledge.
func shipped(tb testing.TB, name string) *policy.Object {
	if object, ok := parsed.Load(name); ok {
		out := object.(policy.Object)
		return &out
	}
	file, level, _ := strings.Cut(name, " ")
	text, err := policies.Files.ReadFile(file + ".yaml")
	require.NoError(tb, err)
	object, err := policy.Parse(name, text)
	require.NoError(tb, err)
	object.Spec.Knowledge = cmp.Or(level, object.Spec.Knowledge)
	object.Spec.Provenance = nil // long, and without effect
	parsed.Store(name, *object)
	return object
}

var parsed sync.Map // policies by name: reading one takes a millisecond

// livePolicies are those shipped ones that a live cluster can use.
var livePolicies = []string{
	"kubernetes-k0", "kubernetes-k0-fixed", "large-k1", "general-k1", "general-k1-devices", "hand-k0", "hand-k1",
}

// anyPolicy is a shipped policy, a rule with settings, or one with all features.
func anyPolicy(tb testing.TB, d dice) *policy.Object {
	if d.IntN(4) > 0 {
		return shipped(tb, oneOf(d, livePolicies...))
	}
	object := shipped(tb, "general-k1")
	object.Metadata.Name = "drawn"
	if d.IntN(2) == 0 {
		object.Spec = policy.Spec{FeatureVersion: policy.FeatureVersion, Model: policy.RuleModel, Knowledge: "K0", Rule: anyRule(d)}
		return object
	}
	object.Spec.Knowledge = oneOf(d, "K0", "K1")
	without := oneOf(d, "press", "slot") // one takes the place of the other
	object.Spec.Features = slices.DeleteFunc(policy.ModelOf("linear").FeatureNames(), func(name string) bool { return name == without })
	for i, name := range object.Spec.Features {
		if name == "util:<dimension>" {
			object.Spec.Features[i] = "util:" + oneOf(d, "cpu", "memory", "disk")
		}
	}
	object.Spec.Weights = make([]float64, len(object.Spec.Features))
	for i := range object.Spec.Weights {
		object.Spec.Weights[i] = float64(d.IntN(2001)-1000) / 1000
	}
	object.Spec.Parameters = map[string]float64{"eta": 2, "z": .1, "q": 1}
	if object.Spec.Knowledge == "K0" || d.IntN(2) == 0 {
		object.Spec.Parameters["alpha"] = 1
	}
	return object
}

// A scene is a cluster that lives: random things happen to it, and a live loop
// decides, as the scheduler's does.
type scene struct {
	tb     testing.TB
	d      dice
	l      *ledger.Ledger
	w      *world
	events []*ledger.Event
	// decided is called with every decision before it is applied.
	decided  func(role ledger.Role, app string, passed []int32)
	shapes   int // of machines: few make ties
	demands  int // shapes of apps
	nodes    int // drawn so far, as apps and pods
	apps     int
	pods     int
	gone     []string // apps that were forgotten
	failures []string // pods that wait to be tried again
	time     float64
	busy     bool // machines, apps and rules change, too
	timed    bool // there are windows, and policies that read a clock
	reserves bool // room is reserved
}

func newScene(tb testing.TB, d dice) *scene { return newSceneOf(tb, d, false) }

func newSceneOf(tb testing.TB, d dice, timed bool) *scene {
	s := &scene{tb: tb, d: d, l: ledger.New(), busy: true, timed: timed, shapes: 2 + d.IntN(4), demands: 2 + d.IntN(4), time: 1.7e9}
	s.begin(oneOf(d, "open", "fixed"))
	return s
}

// begin starts the scheduler: it describes the whole cluster, as informers do.
func (s *scene) begin(fleet string) {
	s.do(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
		Version: ledger.Version, Profile: "sigma", Fleet: fleet, Units: map[string]string{"cpu": "m"},
	}})
	s.failures, s.gone = nil, nil
	for range 3 + s.d.IntN(12) {
		s.nodeComes()
	}
	for range 2 + s.d.IntN(8) {
		s.appComes()
	}
	s.rules()
	s.forecast()
	s.policy(ledger.Primary)
	if s.d.IntN(2) == 0 {
		s.policy(ledger.Canary)
	}
}

// do applies an event to the ledger and to the world.
func (s *scene) do(e *ledger.Event) {
	s.tb.Helper()
	s.time += float64(s.d.IntN(100)) / 8
	e.Time = s.time
	require.NoError(s.tb, s.l.Apply(e), "event %d: %+v", len(s.events), e)
	s.events = append(s.events, e)
	if e.Kind == ledger.KindStart {
		s.w = newWorld()
	}
	s.w.apply(e)
}

func (s *scene) step() {
	if s.timed && s.d.IntN(8) == 0 {
		s.windows()
	}
	if s.reserves && s.d.IntN(5) == 0 {
		s.reserve()
	}
	switch n := s.d.IntN(100); {
	case n < 50:
		s.decide()
	case n < 64:
		s.remove()
	case n < 68:
		s.fail()
	case n < 74:
		s.find()
	case n < 78:
		s.forecast()
	case n < 80:
		s.policy(oneOf(s.d, ledger.Primary, ledger.Canary))
	case !s.busy:
		s.decide()
	case n < 83:
		s.nodeComes()
	case n < 90:
		s.nodeChanges()
	case n < 91:
		s.nodeGoes()
	case n < 94:
		s.appComes()
	case n < 95:
		s.selector()
	case n < 96:
		s.appChanges()
	case n < 98:
		s.appGoes()
	default:
		s.rules()
	}
}

func (s *scene) nodeComes() {
	s.nodes++
	// Names ascend otherwise than machines come.
	name := fmt.Sprintf("n%02d-%d", s.nodes*37%100, s.nodes)
	s.do(&ledger.Event{Kind: ledger.KindNode, Node: name, Machine: s.machine()})
}

func (s *scene) machine() *ledger.Machine {
	size := int64(1 + s.d.IntN(s.shapes))
	m := &ledger.Machine{
		Capacity: map[string]int64{"cpu": 4000 * size, "memory": 16 * size, "pods": 5 + 5*size},
		Cost:     1, Cordoned: s.d.IntN(10) == 0,
	}
	if s.d.IntN(3) == 0 {
		m.Capacity["disk"] = 8
	}
	for _, selector := range []string{"", "a", "b"} {
		if s.d.IntN(4) == 0 {
			m.Refuses = append(m.Refuses, selector)
		}
		if s.d.IntN(2) == 0 {
			m.Admits = append(m.Admits, selector)
		}
	}
	return m
}

func (s *scene) nodeChanges() {
	name, ok := s.someNode()
	if !ok {
		return
	}
	m := s.machine()
	if s.d.IntN(2) == 0 { // only its state
		was := *s.w.nodes[name]
		was.Cordoned = !was.Cordoned
		m = &was
	}
	s.do(&ledger.Event{Kind: ledger.KindNode, Node: name, Machine: m})
}

func (s *scene) nodeGoes() {
	if name, ok := s.someNode(); ok {
		s.do(&ledger.Event{Kind: ledger.KindForget, Node: name})
	}
}

func (s *scene) someNode() (string, bool) {
	names := slices.Sorted(maps.Keys(s.w.nodes))
	if len(names) == 0 {
		return "", false
	}
	return names[s.d.IntN(len(names))], true
}

func (s *scene) appComes() {
	s.apps++
	name := fmt.Sprintf("a%02d-%d", s.apps*37%100, s.apps)
	if len(s.gone) > 0 && s.d.IntN(2) == 0 { // one that was there before
		name, s.gone = s.gone[0], s.gone[1:]
	}
	s.do(&ledger.Event{Kind: ledger.KindApp, App: name, Spec: s.spec()})
}

func (s *scene) spec() *ledger.App {
	size := int64(1 + s.d.IntN(s.demands))
	spec := &ledger.App{
		Group:    fmt.Sprint("g", s.d.IntN(3+s.apps)),
		Selector: oneOf(s.d, "", "", "a", "b", "c"),
		Demand:   map[string]int64{"cpu": 500 * size, "memory": int64(1 + s.d.IntN(3)), "pods": 1},

		MaxPerMachine: oneOf[int32](s.d, 0, 1, 1, 2, 3),
		SpreadMin:     oneOf[int32](s.d, 0, 0, 0, 2, 4),
	}
	if s.d.IntN(6) == 0 {
		spec.Demand["disk"] = 1
	}
	return spec
}

func (s *scene) someApp() (string, bool) {
	names := slices.Sorted(maps.Keys(s.w.apps))
	if len(names) == 0 {
		return "", false
	}
	return names[s.d.IntN(len(names))], true
}

func (s *scene) appChanges() {
	if name, ok := s.someApp(); ok {
		s.do(&ledger.Event{Kind: ledger.KindApp, App: name, Spec: s.spec()})
	}
}

// appGoes forgets an app once nothing of it stands.
func (s *scene) appGoes() {
	name, ok := s.someApp()
	if !ok {
		return
	}
	for _, uid := range s.w.uids() {
		if p := s.w.pods[uid]; p.app == name && p.node != "" {
			s.do(&ledger.Event{Kind: ledger.KindRemove, UID: uid})
		}
	}
	s.releaseAll(name)
	s.do(&ledger.Event{Kind: ledger.KindForget, App: name})
	s.gone = append(s.gone, name)
	s.failures = slices.DeleteFunc(s.failures, func(uid string) bool { return s.w.pods[uid] == nil })
}

func (s *scene) rules() {
	e := &ledger.Event{Kind: ledger.KindRule, Reset: s.d.IntN(2) == 0}
	for range s.d.IntN(5) {
		e.Rules = append(e.Rules, ledger.Rule{
			App: fmt.Sprint("g", s.d.IntN(3+s.apps)), Other: fmt.Sprint("g", s.d.IntN(3+s.apps)), Max: int32(s.d.IntN(3)),
		})
	}
	s.do(e)
}

func (s *scene) forecast() {
	e := &ledger.Event{Kind: ledger.KindForecast, Expected: map[string]float64{}}
	for range 1 + s.d.IntN(4) {
		if name, ok := s.someApp(); ok {
			e.Expected[name] = float64(s.d.IntN(30) - 2)
		}
	}
	s.do(e)
}

func (s *scene) policy(role ledger.Role) {
	e := &ledger.Event{Kind: ledger.KindPolicy, Role: role, Policy: anyPolicy(s.tb, s.d)}
	if s.timed && s.d.IntN(4) > 0 {
		e.Policy = shipped(s.tb, oneOf(s.d, clockPolicies...))
	}
	e.Outside = ledger.ClocklessPolicy(e.Policy, binpack.Open)
	if role == ledger.Canary && s.d.IntN(3) == 0 {
		e.Policy, e.Outside = nil, nil
	}
	s.do(e)
}

// find places a pod as another scheduler does, against our model too.
func (s *scene) find() {
	app, okApp := s.someApp()
	node, okNode := s.someNode()
	if !okApp || !okNode {
		return
	}
	uid := s.newPod()
	if standing := s.w.standing(); s.d.IntN(4) == 0 && len(standing) > 0 { // ours, confirmed
		uid = standing[s.d.IntN(len(standing))]
		app, node = s.w.pods[uid].app, s.w.pods[uid].node
	}
	s.do(&ledger.Event{Kind: ledger.KindPlace, Pod: "ns/" + uid, UID: uid, App: app, Node: node})
}

func (s *scene) newPod() string {
	s.pods++
	return fmt.Sprint("p", s.pods)
}

func (s *scene) remove() {
	if uids := s.w.uids(); len(uids) > 0 {
		uid := uids[s.d.IntN(len(uids))]
		s.do(&ledger.Event{Kind: ledger.KindRemove, UID: uid})
		s.failures = slices.DeleteFunc(s.failures, func(other string) bool { return other == uid })
	}
}

func (s *scene) fail() {
	standing := s.w.standing()
	if len(standing) == 0 {
		return
	}
	uid := standing[s.d.IntN(len(standing))]
	s.do(&ledger.Event{Kind: ledger.KindFailed, UID: uid})
	s.failures = append(s.failures, uid)
}

// decide places a pod as the scheduler does: filters, then the policy.
func (s *scene) decide() {
	name, ok := s.someApp()
	if !ok {
		return
	}
	uid := ""
	if len(s.failures) > 0 && s.d.IntN(2) == 0 { // once more
		uid = s.failures[0]
		name = s.w.pods[uid].app
	}
	if uid == "" {
		uid = s.newPod()
	} else {
		s.failures = s.failures[1:]
	}
	if s.d.IntN(6) > 0 { // else one node is feasible by what we do not model
		s.do(&ledger.Event{Kind: ledger.KindArrive, Pod: "ns/" + uid, UID: uid, App: name})
	}
	app := s.l.AppIndex(name)
	passed := s.filter(app)
	if len(passed) == 0 {
		if s.w.pods[uid] != nil {
			s.failures = append(s.failures, uid)
		}
		s.remove() // it waits until something goes
		return
	}
	e := &ledger.Event{Kind: ledger.KindDecide, Pod: "ns/" + uid, UID: uid, App: name, Decision: &ledger.Decision{Cause: ledger.CausePolicy, Mode: "live"}}
	e.Infeasible, e.Extra = s.l.FilterDifferences(app, passed)
	role := ledger.Primary
	if object, _ := s.l.Policy(ledger.Canary); object != nil && s.d.IntN(3) == 0 {
		role = ledger.Canary
	}
	s.l.SetClock(s.time)
	_, asked := s.l.PolicyFor(role, app)
	e.Cause, e.PolicyDigest, e.Clock = asked.Cause, asked.PolicyDigest, asked.Clock
	if s.decided != nil {
		s.decided(role, name, passed)
	}
	if m := s.l.ReservedMachine(app, passed); m >= 0 {
		s.take(e, m)
		return
	}
	ranked, err := s.l.Rank(role, app, passed, 2, nil)
	require.NoError(s.tb, err)
	require.NotEmpty(s.tb, ranked)
	e.Node, e.Score = s.l.NodeName(ranked[0].Machine), ranked[0].Score
	if len(ranked) > 1 {
		e.RunnerUp, e.RunnerUpScore = s.l.NodeName(ranked[1].Machine), ranked[1].Score
	}
	anyNode := s.l.NodeName(passed[s.d.IntN(len(passed))])
	switch n := s.d.IntN(40); {
	case len(passed) == 1:
		e.Cause = ledger.CauseSingle
	case n == 0:
		e.Node, e.Cause = anyNode, ledger.CauseNominated
	case n == 1:
		e.Node, e.Cause = anyNode, ledger.CauseNeutral
	case n == 2:
		e.Node, e.Cause = anyNode, ledger.CauseFallback+"panic"
	case n < 6: // it only watches, or was outvoted
		e.Choice, e.Node, e.Mode = e.Node, anyNode, "shadow"
	}
	s.do(e)
}

// filter are the machines that pass a cluster's filters: those that our own model
// allows, less what others refuse, and now and then one that it does not allow.
func (s *scene) filter(app int32) []int32 {
	passed := s.l.Fits(app, nil)
	switch s.d.IntN(6) {
	case 0:
		passed = slices.DeleteFunc(passed, func(int32) bool { return s.d.IntN(3) == 0 })
	case 1:
		if size := s.l.Columns().Size(); size > 0 && s.d.IntN(3) == 0 {
			passed = append(passed, int32(s.d.IntN(size)))
			slices.Sort(passed)
			passed = slices.Compact(passed)
		}
	}
	return passed
}
