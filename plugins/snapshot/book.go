package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A line is what happened at a moment; a recording is a file of them.
type line struct {
	At       float64            `json:"at"` // seconds since the beginning
	Begin    *begin             `json:"begin,omitempty"`
	Node     *nodeLine          `json:"node,omitempty"` // it came, or is another now
	Gone     string             `json:"gone,omitempty"` // a node
	Selector *selectorLine      `json:"selector,omitempty"`
	App      string             `json:"app,omitempty"`
	Spec     *ledger.App        `json:"spec,omitempty"`     // of App
	Rules    *[]ledger.Rule     `json:"rules,omitempty"`    // all there are
	Expected map[string]float64 `json:"expected,omitempty"` // those that are new
	Pod      *podLine           `json:"pod,omitempty"`      // it came, or got a node
	Left     string             `json:"left,omitempty"`     // UID of a pod
}

type begin struct {
	Version  int    `json:"version"`
	Time     string `json:"time"` // RFC 3339
	AppLabel string `json:"appLabel,omitempty"`
}

// A nodeLine has labels and taints in place of the selectors that the machine
// refuses: it may have to do with pods that come when it is gone.
type nodeLine struct {
	Name    string            `json:"name"`
	UID     string            `json:"uid"`
	Labels  map[string]string `json:"labels,omitempty"`
	Taints  []v1.Taint        `json:"taints,omitempty"`
	Machine ledger.Machine    `json:"machine"`
}

// A selectorLine is what of a pod says which nodes it admits.
type selectorLine struct {
	ID           string            `json:"id"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Affinity     *v1.NodeSelector  `json:"affinity,omitempty"` // required
	Tolerations  []v1.Toleration   `json:"tolerations,omitempty"`
}

func newSelectorLine(id string, spec *v1.PodSpec) *selectorLine {
	l := &selectorLine{ID: id, NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		l.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return l
}

// selector is the selector of a pod with such a specification.
func (l *selectorLine) selector() *podspec.Selector {
	pod := &v1.Pod{Spec: v1.PodSpec{NodeSelector: l.NodeSelector, Tolerations: l.Tolerations}}
	if l.Affinity != nil {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: l.Affinity}}
	}
	return podspec.NewSelector(pod)
}

type podLine struct {
	UID     string `json:"uid"`
	Name    string `json:"name"`           // namespace/name
	App     string `json:"app"`            //
	Node    string `json:"node,omitempty"` // "" = it waits
	Created int64  `json:"created"`        // seconds since 1970
}

// A book holds all that was seen of a cluster since the beginning.
type book struct {
	begin     begin
	at        float64 // of the last line
	nodes     map[string]*seenNode
	selectors map[string]*podspec.Selector // by ID
	apps      map[string]ledger.App
	rules     []ledger.Rule
	expected  map[string]float64 // as it was when the app became known
	pods      []*seenPod         // in the order of lines
	here      map[string]*seenPod
}

type seenNode struct {
	nodeLine
	gone bool
}

// refuses lists the selectors that do not admit the node, of those that are known.
func (n *seenNode) refuses(selectors map[string]*podspec.Selector) []string {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}, Spec: v1.NodeSpec{Taints: n.Taints}}
	var list []string
	for id, s := range selectors {
		if !s.Admits(node) {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// A seenPod is a pod of one demand: one that is resized leaves and comes anew.
type seenPod struct {
	podLine
	came  float64
	left  float64 // negative = it is still there
	first bool    // it stood when the recording began
}

func newBook() *book {
	return &book{
		nodes: map[string]*seenNode{}, selectors: map[string]*podspec.Selector{"": (&selectorLine{}).selector()},
		apps: map[string]ledger.App{}, expected: map[string]float64{}, here: map[string]*seenPod{},
	}
}

// apply books a line.
func (b *book) apply(l *line) error {
	b.at = max(b.at, l.At)
	switch {
	case l.Begin != nil:
		b.begin = *l.Begin
	case l.Node != nil:
		b.nodes[l.Node.Name] = &seenNode{nodeLine: *l.Node}
	case l.Gone != "":
		n, ok := b.nodes[l.Gone]
		if !ok {
			return fmt.Errorf("gone: node %q is unknown", l.Gone)
		}
		n.gone = true
	case l.Selector != nil:
		b.selectors[l.Selector.ID] = l.Selector.selector()
	case l.App != "" && l.Spec != nil:
		if b.selectors[l.Spec.Selector] == nil {
			return fmt.Errorf("app: selector %q is unknown", l.Spec.Selector)
		}
		b.apps[l.App] = *l.Spec
	case l.Rules != nil:
		b.rules = *l.Rules
	case l.Expected != nil:
		maps.Copy(b.expected, l.Expected)
	case l.Pod != nil:
		return b.come(l.At, l.Pod)
	case l.Left != "":
		p, ok := b.here[l.Left]
		if !ok {
			return fmt.Errorf("left: pod %q is unknown", l.Left)
		}
		p.left = l.At
		delete(b.here, l.Left)
	}
	return nil
}

func (b *book) come(at float64, p *podLine) error {
	if _, ok := b.apps[p.App]; !ok {
		return fmt.Errorf("pod: app %q is unknown", p.App)
	}
	if p.Node != "" && b.nodes[p.Node] == nil {
		return fmt.Errorf("pod: node %q is unknown", p.Node)
	}
	if known, ok := b.here[p.UID]; ok {
		if known.App == p.App && known.Node == "" { // it got a node
			known.podLine = *p
			return nil
		}
		known.left = at
	}
	seen := &seenPod{podLine: *p, came: at, left: -1, first: at == 0 && p.Node != ""}
	b.pods = append(b.pods, seen)
	b.here[p.UID] = seen
	return nil
}

// mergedRules are the present rules, and those of groups that are not known any
// more as they were when they were.
func (b *book) mergedRules(now []ledger.Rule, known map[string]bool) []ledger.Rule {
	list := append([]ledger.Rule{}, now...)
	for _, r := range b.rules {
		if !known[r.App] || !known[r.Other] {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(x, y ledger.Rule) int {
		return cmp.Or(strings.Compare(x.App, y.App), strings.Compare(x.Other, y.Other), cmp.Compare(x.Max, y.Max))
	})
	return slices.Compact(list)
}

// A Tally is what a recording has seen so far.
type Tally struct {
	Nodes, Cordoned   int // there now
	Standing, Waiting int // pods, now
	Apps, Rules       int
	Arrived, Left     int // since the beginning
}

func (b *book) tally() Tally {
	t := Tally{Apps: len(b.apps), Rules: len(b.rules)}
	for _, n := range b.nodes {
		if n.gone {
			continue
		}
		t.Nodes++
		if n.Machine.Cordoned {
			t.Cordoned++
		}
	}
	for p := range maps.Values(b.here) {
		if p.Node == "" {
			t.Waiting++
		} else {
			t.Standing++
		}
	}
	for _, p := range b.pods {
		if p.came > 0 {
			t.Arrived++
		}
		if p.left >= 0 {
			t.Left++
		}
	}
	return t
}
