package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Recorder turns pictures of a cluster into what happened between them.
type Recorder struct {
	book      *book
	file      *recording // nil = in memory only
	ledger    *ledger.Ledger
	cluster   *kube.Translator
	machines  map[string]ledger.Machine // as the cluster said last
	specs     map[string]ledger.App
	rules     []ledger.Rule
	rulesNew  bool
	expected  map[string]float64
	forecast  time.Time // the last one; zero = never
	templates []*v1.PodTemplateSpec

	lines []*line
	err   error
}

// NewRecorder begins in memory.
func NewRecorder(appLabel string, now time.Time) *Recorder {
	r := newRecorder(newBook(), appLabel)
	r.note(&line{Begin: newBegin(appLabel, now)})
	return r
}

func newBegin(appLabel string, now time.Time) *begin {
	return &begin{Version: version, Time: now.UTC().Format(time.RFC3339Nano), AppLabel: appLabel}
}

func newRecorder(b *book, appLabel string) *Recorder {
	r := &Recorder{book: b, machines: map[string]ledger.Machine{}, specs: map[string]ledger.App{}, expected: map[string]float64{}}
	r.ledger = ledger.New()
	r.cluster = kube.NewTranslator(appLabel, r.ledger, r.hear)
	r.hear(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed", Units: podspec.Units}})
	return r
}

// hear keeps what the cluster says of all but pods.
func (r *Recorder) hear(e *ledger.Event) {
	if err := r.ledger.Apply(e); err != nil && r.err == nil {
		r.err = fmt.Errorf("%s %s%s%s: %w", e.Kind, e.Node, e.App, e.Pod, err)
		return
	}
	switch e.Kind {
	case ledger.KindNode:
		r.machines[e.Node] = *e.Machine
	case ledger.KindApp:
		r.specs[e.App] = *e.Spec
	case ledger.KindForget:
		delete(r.machines, e.Node)
		delete(r.specs, e.App)
	case ledger.KindRule:
		if e.Reset {
			r.rules = nil
		}
		r.rules, r.rulesNew = append(r.rules, e.Rules...), true
	case ledger.KindForecast:
		maps.Copy(r.expected, e.Expected)
	default: // where pods stand is compared below: a recording goes on where it was
	}
}

// note books a line and keeps it for the file.
func (r *Recorder) note(l *line) {
	if r.err != nil {
		return
	}
	r.err = r.book.apply(l)
	r.lines = append(r.lines, l)
}

// Record takes a picture of the cluster at a time and notes what is new.
func (r *Recorder) Record(p *Picture, now time.Time) error {
	at := r.since(now)
	r.show(p, now)
	r.noteNodes(p, at)
	r.noteApps(p, at)
	r.notePods(p, at)
	if r.err != nil || r.file == nil {
		return r.err
	}
	lines := r.lines
	r.lines = nil
	return r.file.write(lines)
}

// since is the time of the recording. It goes on even when clocks are set back:
// nothing leaves at the moment at which it came.
func (r *Recorder) since(now time.Time) float64 {
	began, err := time.Parse(time.RFC3339Nano, r.book.begin.Time)
	if err != nil || len(r.book.pods)+len(r.book.nodes) == 0 {
		return 0
	}
	return max(math.Round(r.book.at*1e3+1)/1e3, float64(now.Sub(began).Milliseconds())/1e3)
}

// show gives the picture to the cluster, which says what changed of it.
func (r *Recorder) show(p *Picture, now time.Time) {
	r.cluster.SetRules(p.Rules)
	on := p.standing()
	there := map[string]bool{}
	for _, n := range p.Nodes {
		there[n.Name] = true
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
	for _, pod := range p.Pods {
		if waits(pod) {
			r.cluster.EnsureApp(pod)
		}
	}
	if p.Declared != nil {
		since := time.Duration(0)
		if !r.forecast.IsZero() {
			since = now.Sub(r.forecast)
		}
		r.forecast, r.templates = now, templates(p.Declared)
		r.cluster.Forecast(p.Declared, since)
	}
}

func (r *Recorder) noteNodes(p *Picture, at float64) {
	there := map[string]bool{}
	for _, n := range p.Nodes {
		there[n.Name] = true
		l := nodeLine{Name: n.Name, UID: string(n.UID), Labels: n.Labels, Taints: n.Spec.Taints, Machine: r.machines[n.Name]}
		l.Machine.Refuses = nil
		if known, ok := r.book.nodes[n.Name]; !ok || known.gone || !equality.Semantic.DeepEqual(known.nodeLine, l) {
			r.note(&line{At: at, Node: &l})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.book.nodes)) {
		if !there[name] && !r.book.nodes[name].gone {
			r.note(&line{At: at, Gone: name})
		}
	}
}

// noteSelector notes what a selector asks for, as a pod of the app has it, or what
// is declared.
func (r *Recorder) noteSelector(p *Picture, at float64, app, id string) {
	if r.book.selectors[id] != nil {
		return
	}
	var spec *v1.PodSpec
	for _, pod := range p.Pods {
		if spec == nil && podspec.Moves(pod) && !podspec.Ended(pod) && r.app(pod) == app {
			spec = &pod.Spec
		}
	}
	for _, t := range r.templates {
		if spec == nil && podspec.NewSelector(&v1.Pod{Spec: t.Spec}).ID == id {
			spec = &t.Spec
		}
	}
	if spec != nil {
		r.note(&line{At: at, Selector: newSelectorLine(id, spec)})
	}
}

// templates are those of all that is declared.
func templates(d *kube.Declared) []*v1.PodTemplateSpec {
	var list []*v1.PodTemplateSpec
	for _, o := range d.Deployments {
		list = append(list, &o.Spec.Template)
	}
	for _, o := range d.StatefulSets {
		list = append(list, &o.Spec.Template)
	}
	for _, o := range d.ReplicaSets {
		list = append(list, &o.Spec.Template)
	}
	for _, o := range d.Jobs {
		list = append(list, &o.Spec.Template)
	}
	for _, o := range d.CronJobs {
		list = append(list, &o.Spec.JobTemplate.Spec.Template)
	}
	return list
}

// noteApps notes apps, the rules between their groups, and what is expected of new
// ones.
func (r *Recorder) noteApps(p *Picture, at float64) {
	groups := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(r.specs)) {
		spec := r.specs[name]
		groups[spec.Group] = true
		if known, ok := r.book.apps[name]; !ok || !reflect.DeepEqual(known, spec) {
			r.noteSelector(p, at, name, spec.Selector)
			r.note(&line{At: at, App: name, Spec: &spec})
		}
	}
	if r.rulesNew {
		r.rulesNew = false
		if all := r.book.mergedRules(r.rules, groups); !slices.Equal(all, r.book.rules) {
			r.note(&line{At: at, Rules: &all})
		}
	}
	news := map[string]float64{}
	for name, n := range r.expected {
		if _, ok := r.book.expected[name]; !ok && n >= 0 {
			news[name] = n
		}
	}
	if len(news) > 0 {
		r.note(&line{At: at, Expected: news})
	}
}

// notePods compares the pods that are there with those that were.
func (r *Recorder) notePods(p *Picture, at float64) {
	there := map[string]bool{}
	var came []*podLine
	for _, pod := range p.Pods {
		stands := pod.Spec.NodeName != "" && podspec.Moves(pod) && !podspec.Ended(pod)
		if stands && r.book.nodes[pod.Spec.NodeName] == nil || !stands && !waits(pod) {
			continue
		}
		l := &podLine{UID: string(pod.UID), Name: nameOf(pod), App: r.app(pod), Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Unix()}
		there[l.UID] = true
		if known, ok := r.book.here[l.UID]; !ok || known.App != l.App || known.Node != l.Node {
			came = append(came, l)
		}
	}
	// What leaves makes room for what comes.
	for _, l := range r.book.pods {
		if r.book.here[l.UID] == l && !there[l.UID] {
			r.note(&line{At: at, Left: l.UID})
		}
	}
	for _, l := range came {
		r.note(&line{At: at, Pod: l})
	}
}

// app is the name of a pod's app; "" when the ledger refused it, which is an error.
func (r *Recorder) app(pod *v1.Pod) string {
	if a := r.cluster.EnsureApp(pod); a != nil {
		return a.Name()
	}
	return ""
}

// Tally is what was seen so far.
func (r *Recorder) Tally() Tally { return r.book.tally() }

// SameCluster reports an error when none of the nodes that the recording knows as
// present is in the picture: it is of another cluster.
func (r *Recorder) SameCluster(p *Picture) error {
	known := 0
	for _, n := range r.book.nodes {
		if n.gone {
			continue
		}
		known++
		if slices.ContainsFunc(p.Nodes, func(o *v1.Node) bool { return string(o.UID) == n.UID }) {
			return nil
		}
	}
	if known == 0 {
		return nil
	}
	return errors.New("the recording is of another cluster: none of its nodes is in this one")
}
