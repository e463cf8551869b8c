package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Recorder turns pictures of a cluster into the events between them: those of a
// decision log, without decisions. In memory it keeps the whole past. In files it keeps only the present objects: the
// recording continues like a scheduler's log, each process beginning with a description of the cluster.
type Recorder struct {
	// MinReplicas may be changed before the first picture: a pod of a workload with fewer on
	// nodes is marked as one that must not move.
	MinReplicas int
	// MaxGrace may be set before the first picture: a pod with a longer grace period must not move; 0 =
	// [podspec.MaxGrace].
	MaxGrace time.Duration
	// Scheduler may be set before the first picture: the only schedulerName whose pods may move; "" =
	// all may.
	Scheduler string
	// Stays may be set before the first picture: it returns another reason why a pod must not move, ""
	// if it may.
	Stays func(*v1.Pod) string
	// Prices may be set before the first picture: the cost of nodes; nil = by their annotations, else by
	// the linear model.
	Prices *kube.Prices

	priced   map[kube.PriceSource]int // nodes of the last picture by the source of their prices
	origins  map[string]bool          // of their prices in the built-in list
	fixed    map[string]string        // pods of the last picture that must not move, with the reasons
	follow   map[string]bool          // of these, pods that may be replaced elsewhere with their volumes
	ignored  map[string]string        // pods of the last picture with constraints that a trace cannot express
	unwell   []string                 // notes on nodes of the last picture
	looks    int
	picture  *Picture              // the first one, if there are no others
	ports    map[string][]hostPort // of the last picture, by group
	appLabel string
	fleet    string
	last     int64             // time of the last look, in ms since 1970
	past     *history.History  // in memory; nil: in files
	files    *logged           // nil: in memory
	total    history.Counts    // of the recording in files, when a trace was last made of it
	expected map[string]string // UIDs of nodes by name, one of which is to be there; "" = any UID

	ledger   *ledger.Ledger // as this process sees the cluster; nil: not read yet
	cluster  *kube.Translator
	waiting  map[types.UID]waiter
	forecast time.Time       // the last one; zero: none
	faults   []kube.Fault    // in annotations, at this look
	missent  []string        // the same in annotations of traffic
	events   []*ledger.Event // of this look
	err      error
}

// A waiter is a pod that waits for a node.
type waiter struct {
	pod *v1.Pod
	app string
}

// NewRecorder begins a recording in memory.
func NewRecorder(appLabel string, now time.Time) *Recorder {
	r := newRecorder(appLabel, "open", now)
	r.past = history.New()
	return r
}

func newRecorder(appLabel, fleet string, now time.Time) *Recorder {
	return &Recorder{appLabel: appLabel, fleet: fleet, last: now.UnixMilli() - 1, MinReplicas: MinReplicas}
}

// Record takes a picture of the cluster at a time and records the changes. Its time increases even when clocks are
// set back: nothing leaves at the moment of its arrival.
func (r *Recorder) Record(p *Picture, now time.Time) error {
	r.last = max(r.last+1, now.UnixMilli())
	if r.ledger == nil {
		r.begin()
	}
	r.show(p, now)
	r.ports = p.hostPorts(r.appLabel)
	r.fixed, r.follow = p.fixed(r.appLabel, r.MinReplicas, r.MaxGrace, r.Scheduler, r.Stays)
	r.ignored, r.unwell = p.ignored(r.appLabel), p.unwell()
	if r.picture = p; r.looks > 0 {
		r.picture = nil
	}
	r.looks++
	if r.err != nil {
		return r.err
	}
	events := inOrder(r.events)
	r.events = nil
	uids := map[string]types.UID{}
	for _, n := range p.Nodes {
		uids[n.Name] = n.UID
	}
	for _, e := range events {
		e.Time = float64(r.last) / 1e3
		if e.Kind == ledger.KindNode {
			e.UID = string(uids[e.Node])
		}
		if r.past != nil {
			if err := r.past.Add(e); err != nil {
				return err
			}
		}
	}
	if r.past != nil {
		return nil
	}
	return r.files.write(r.ledger, events, now, r.last)
}

// begin describes the cluster from nothing.
func (r *Recorder) begin() {
	r.ledger, r.waiting = ledger.New(), map[types.UID]waiter{}
	r.cluster = kube.NewTranslator(r.appLabel, r.ledger, r.onEvent)
	r.cluster.Prices = r.Prices
	r.onEvent(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
		Version: ledger.Version, Fleet: r.fleet, Units: podspec.Units, AppLabel: r.appLabel, Currency: r.Prices.Unit(), MaxShareOfApp: ledger.MaxShareOfApp,
	}})
}

func (r *Recorder) onEvent(e *ledger.Event) {
	if err := r.ledger.Apply(e); err != nil && r.err == nil {
		r.err = fmt.Errorf("%s %s%s%s: %w", e.Kind, e.Node, e.App, e.Pod, err)
	}
	r.events = append(r.events, e)
}

// inOrder sorts the events of one look: departures precede arrivals, for which they make room,
// and arrivals are in the order of age.
func inOrder(events []*ledger.Event) []*ledger.Event {
	rank := func(e *ledger.Event) int {
		switch e.Kind {
		case ledger.KindRemove:
			return 1
		case ledger.KindForget:
			return 2
		case ledger.KindPlace:
			return 3
		case ledger.KindArrive:
			return 4
		default: // in their own order
			return 0
		}
	}
	slices.SortStableFunc(events, func(a, b *ledger.Event) int {
		if c := cmp.Compare(rank(a), rank(b)); c != 0 || rank(a) == 0 {
			return c
		}
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.Pod, b.Pod), strings.Compare(a.UID, b.UID))
	})
	return events
}

// show passes the picture to the translator, which emits the changes.
func (r *Recorder) show(p *Picture, now time.Time) {
	r.missent = p.missent()
	r.cluster.SetRules(p.Rules)
	r.cluster.SetServed(p.unoffered())
	on := p.standing()
	there := map[string]bool{}
	r.priced, r.origins = map[kube.PriceSource]int{}, map[string]bool{}
	for _, n := range p.Nodes {
		there[n.Name] = true
		_, by := r.Prices.Of(n)
		if r.priced[by]++; by == kube.ByList {
			r.origins[r.Prices.Origin(n)] = true
		}
		r.cluster.SetNode(n, on[n.Name])
	}
	var gone []string
	for n := range r.ledger.Nodes() {
		if !there[n.Name()] {
			gone = append(gone, n.Name())
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		r.cluster.RemoveNode(name)
	}
	r.showWaiting(p)
	if p.Declared != nil {
		since := time.Duration(0)
		if !r.forecast.IsZero() {
			since = now.Sub(r.forecast)
		}
		r.forecast = now
		r.faults = r.cluster.Forecast(p.Declared, since)
	}
}

// showWaiting passes the waiting pods to the translator. A pod that was resized meanwhile
// leaves and arrives again.
func (r *Recorder) showWaiting(p *Picture) {
	before := r.waiting
	r.waiting = map[types.UID]waiter{}
	for _, pod := range p.Pods {
		if !waits(pod) {
			continue
		}
		a := r.cluster.EnsureApp(pod)
		if a == nil {
			continue // the error is kept
		}
		w := waiter{pod, a.Name()}
		if known, ok := before[pod.UID]; ok && known.app == w.app {
			delete(before, pod.UID)
		}
		r.waiting[pod.UID] = w
	}
	for _, w := range before {
		r.cluster.Leave(w.pod) // nothing, if it has a node
	}
	for _, w := range r.waiting {
		r.cluster.Arrive(w.pod)
	}
}

// Trace makes a trace of the recording; fleet is open or fixed. notes list the adjusted
// and ignored data.
func (r *Recorder) Trace(name, fleet string) (t *trace.Trace, notes []string, err error) {
	if r.past != nil && r.picture != nil && len(r.picture.Nodes) == 0 {
		return r.picture.bare(name, r.Prices), nil, nil
	}
	past := r.past
	if past == nil {
		if past, err = history.ReadAll(r.files.path); err != nil {
			return nil, nil, err
		}
		r.total = past.Counts()
	}
	t, notes, err = past.Trace(history.Options{Name: name, Fleet: fleet, Method: "sigma snapshot"})
	if err == nil && r.past != nil { // a recording is of the past, and lacks data on it
		fixed, ignored := map[string]any{}, map[string]any{}
		for name, of := range map[string]map[string]any{"fixed": fixed, "ignored": ignored} {
			known, _ := t.Source[name].(map[string]any)
			maps.Copy(of, known)
		}
		for i := range t.Requests {
			name := t.Requests[i].Name
			if why := r.fixed[name]; why != "" && i < t.Initial {
				fixed[name] = why
			}
			if why := r.ignored[name]; why != "" {
				ignored[name] = why
			}
		}
		if len(fixed) > 0 {
			t.Source["fixed"] = fixed
		}
		if len(ignored) > 0 {
			t.Source["ignored"] = ignored
			keepFirst(t, ignored)
			first := slices.Min(slices.Collect(maps.Keys(ignored)))
			have := "have constraints that a trace cannot express; the first is"
			if len(ignored) == 1 {
				have = "has constraints that a trace cannot express:"
			}
			notes = append(notes, fmt.Sprintf("%s %s %s: %s", podsText(len(ignored)), have, first, ignored[first]))
		}
		addHostPorts(t.Instance, r.ports)
		notes = append(notes, r.unwell...)
		if r.picture != nil { // it has no past
			r.picture.keepSystems(t.Instance, r.appLabel)
			if note := r.picture.keepOnDemand(t.Instance, r.appLabel); note != "" {
				notes = append(notes, note)
			}
			facts := r.picture.facts(t, r.Prices, r.selectors())
			if follow := r.following(t); len(follow) > 0 {
				facts["follow"] = follow
			}
			if rounds := r.picture.rounds(r.appLabel); len(rounds) > 0 {
				facts["budgets"] = rounds
			}
			t.Source["cluster"] = facts
		}
	}
	notes = append(notes, r.missent...)
	for i := range r.faults {
		notes = append(notes, r.faults[i].String())
	}
	return t, notes, err
}

// following are the requests of placed.csv that must not move, and may be replaced elsewhere with their volumes.
func (r *Recorder) following(t *trace.Trace) map[string]any {
	list := map[string]any{}
	for i := range t.Requests[:t.Initial] {
		if name := t.Requests[i].Name; r.follow[name] {
			list[name] = true
		}
	}
	return list
}

// selectors are those of the apps.
func (r *Recorder) selectors() map[string]*podspec.Selector {
	of := map[string]*podspec.Selector{}
	for a := range r.ledger.Apps() {
		if s := r.ledger.Selector(a.Spec().Selector); s != nil {
			of[a.Name()], _ = s.Object.(*podspec.Selector)
		}
	}
	return of
}

// Priced describes the sources of the prices of the nodes that were seen last.
func (r *Recorder) Priced() string {
	var of []string
	for _, by := range []kube.PriceSource{kube.ByAnnotation, kube.ByFile, kube.ByList, kube.ByModel, kube.ByLinux} {
		if n := r.priced[by]; n > 0 {
			of = append(of, fmt.Sprintf("%d by %s", n, by))
		}
	}
	text := "prices of nodes: " + strings.Join(of, ", ")
	if r.Prices == nil {
		return text + "; with --prices FILE savings are in money"
	}
	text += ", in " + r.Prices.Currency + " an hour"
	for _, origin := range slices.Sorted(maps.Keys(r.origins)) {
		text += "\n  " + origin
	}
	return text
}

// Counts counts the present objects, and the arrivals and departures: those since the first picture of this process.
func (r *Recorder) Counts() history.Counts {
	if r.past != nil {
		return r.past.Counts()
	}
	t := history.Counts{Arrived: r.files.arrived, Departed: r.files.left, Waiting: len(r.waiting)}
	if r.ledger == nil {
		return t
	}
	for n := range r.ledger.Nodes() {
		t.Nodes, t.Placed = t.Nodes+1, t.Placed+len(n.Pods())
	}
	for range r.ledger.Apps() {
		t.Apps++
	}
	return t
}

// Total counts the content of a recording in files when a trace was last made of it, since its beginning.
func (r *Recorder) Total() history.Counts { return r.total }

// SameCluster reports an error when none of the expected nodes is in the picture: it is of another cluster.
func (r *Recorder) SameCluster(p *Picture) error {
	for _, n := range p.Nodes {
		if uid, ok := r.expected[n.Name]; ok && (uid == "" || uid == string(n.UID)) {
			return nil
		}
	}
	if len(r.expected) == 0 {
		return nil
	}
	return errors.New("the recording is of another cluster: none of its nodes is in this one")
}
