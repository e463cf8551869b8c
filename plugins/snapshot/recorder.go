package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
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
// decision log, without decisions. If they are in a file, the recording can be resumed after
// the process was killed.
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
	fixed    map[string]string        // pods of the last picture that must not move, with the reasons
	ignored  map[string]string        // pods of the last picture with constraints that a trace cannot express
	unwell   []string                 // notes on nodes of the last picture
	past     *history.History         // empty where stream is set
	stream   *stream
	log      *ledger.Log // nil: in memory only
	appLabel string
	began    time.Time

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
	return &Recorder{past: history.New(), appLabel: appLabel, began: now, MinReplicas: MinReplicas}
}

// OpenRecorder begins a recording in a file, or resumes the one that it holds, which
// may be of the old format. Only one process at a time may have it open.
func OpenRecorder(path, appLabel string, now time.Time) (r *Recorder, resumed bool, err error) {
	if err := translateFile(path); err != nil {
		return nil, false, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r = NewRecorder(appLabel, now)
	if r.log, err = ledger.OpenLog(path); err != nil {
		return nil, false, err
	}
	if err := r.read(path, file); err != nil {
		return nil, false, errors.Join(err, r.log.Close())
	}
	start, began := r.past.Start()
	if start.Version == 0 {
		return r, false, nil
	}
	if start.AppLabel != appLabel {
		err := fmt.Errorf("%s: was begun with --app-label %q, not %q", path, start.AppLabel, appLabel)
		return nil, false, errors.Join(err, r.log.Close())
	}
	r.began = time.UnixMilli(began).UTC()
	return r, true, nil
}

// read adds the events of a recording.
func (r *Recorder) read(path string, file *os.File) error {
	events := ledger.NewReader(path, file)
	for {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.past.Add(e); err != nil {
			return fmt.Errorf("%s:%d: %w", path, events.Line(), err)
		}
	}
}

// Record takes a picture of the cluster at a time and records the changes.
func (r *Recorder) Record(p *Picture, now time.Time) error {
	at := r.instant(now)
	if r.ledger == nil {
		if start, _ := r.past.Start(); start.Version != 0 && start.Currency != r.Prices.Unit() {
			return fmt.Errorf("the recording was begun with prices in %q, not in %q", start.Currency, r.Prices.Unit())
		}
		r.ledger, r.waiting = ledger.New(), map[types.UID]waiter{}
		r.cluster = kube.NewTranslator(r.appLabel, r.ledger, r.onEvent)
		r.cluster.Prices = r.Prices
		r.onEvent(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
			Version: ledger.Version, Fleet: r.fleet(), Units: podspec.Units, AppLabel: r.appLabel, Currency: r.Prices.Unit(), MaxShareOfApp: ledger.MaxShareOfApp,
		}})
	}
	r.show(p, now)
	r.fixed, r.ignored, r.unwell = p.fixed(r.appLabel, r.MinReplicas, r.MaxGrace, r.Scheduler, r.Stays), p.ignored(r.appLabel), p.unwell()
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
		e.Time = float64(at) / 1e3
		if e.Kind == ledger.KindNode {
			e.UID = string(uids[e.Node])
		}
		if r.stream != nil {
			continue
		}
		if err := r.past.Add(e); err != nil {
			return err
		}
	}
	if r.stream != nil && len(events) == 0 {
		if e := r.stream.quiet(); e != nil {
			events = append(events, e)
		}
	}
	switch {
	case r.log == nil || len(events) == 0:
		return nil
	case r.stream != nil:
		return r.stream.write(r, events, now)
	}
	return errors.Join(r.log.Write(events...), r.log.Sync())
}

func (r *Recorder) onEvent(e *ledger.Event) {
	if err := r.ledger.Apply(e); err != nil && r.err == nil {
		r.err = fmt.Errorf("%s %s%s%s: %w", e.Kind, e.Node, e.App, e.Pod, err)
	}
	r.events = append(r.events, e)
}

// instant returns the time of a look in ms since 1970. It increases even when clocks are
// set back: nothing leaves at the moment of its arrival.
func (r *Recorder) instant(now time.Time) int64 {
	if s := r.stream; s != nil {
		s.last = max(s.last+1, now.UnixMilli())
		return s.last
	}
	if start, _ := r.past.Start(); start.Version == 0 {
		return r.began.UnixMilli()
	}
	return max(r.past.Last()+1, now.UnixMilli())
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
	r.priced = map[kube.PriceSource]int{}
	for _, n := range p.Nodes {
		there[n.Name] = true
		_, by := r.Prices.Of(n)
		r.priced[by]++
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
	t, notes, err = r.past.Trace(history.Options{Name: name, Fleet: fleet, Method: "sigma snapshot"})
	if err == nil && r.log == nil { // a recording is of the past, and lacks data on it
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
			first := slices.Min(slices.Collect(maps.Keys(ignored)))
			have := "have constraints that a trace cannot express; the first is"
			if len(ignored) == 1 {
				have = "has constraints that a trace cannot express:"
			}
			notes = append(notes, fmt.Sprintf("%s %s %s: %s", podsText(len(ignored)), have, first, ignored[first]))
		}
		notes = append(notes, r.unwell...)
	}
	notes = append(notes, r.missent...)
	for i := range r.faults {
		notes = append(notes, r.faults[i].String())
	}
	return t, notes, err
}

// Priced describes the sources of the prices of the nodes that were seen last.
func (r *Recorder) Priced() string {
	var of []string
	for _, by := range []kube.PriceSource{kube.ByAnnotation, kube.ByFile, kube.ByModel} {
		if n := r.priced[by]; n > 0 {
			of = append(of, fmt.Sprintf("%d by %s", n, by))
		}
	}
	text := "prices of nodes: " + strings.Join(of, ", ")
	if r.Prices == nil {
		return text + "; with --prices FILE savings are in money"
	}
	return text + ", in " + r.Prices.Currency + " an hour"
}

// Tally counts the content of the recording so far.
func (r *Recorder) Tally() history.Tally {
	if r.stream != nil {
		return r.stream.tally(r)
	}
	return r.past.Tally()
}

// Began returns the time when the recording began.
func (r *Recorder) Began() time.Time { return r.began }

// SameCluster reports an error when none of the present nodes of the recording
// is in the picture: it is of another cluster.
func (r *Recorder) SameCluster(p *Picture) error {
	known := r.past.NodeUIDs()
	for _, n := range p.Nodes {
		if uid, ok := known[n.Name]; ok && uid == string(n.UID) || r.stream != nil && slices.Contains(r.stream.expected, n.Name) {
			return nil
		}
	}
	if len(known) == 0 && (r.stream == nil || len(r.stream.expected) == 0) {
		return nil
	}
	return errors.New("the recording is of another cluster: none of its nodes is in this one")
}

// Close closes the file, if there is one.
func (r *Recorder) Close() error {
	if r.log == nil {
		return nil
	}
	return r.log.Close()
}
